"""Access to table columns: arrays, integer codes of distinct values, stats by row."""
