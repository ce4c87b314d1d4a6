"""The page: a few files of our own."""
