"""The log: how its rows are linked, replayed, read and exported."""
