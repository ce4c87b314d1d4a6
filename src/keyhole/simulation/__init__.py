"""Whole runs at once, against scores, adversaries, and answers that come late, never or wrong."""
