"""Columns: dense numbering of values, distinct runs, and stats by row."""
