"""The page: a few files of our own, and plotly's script."""
