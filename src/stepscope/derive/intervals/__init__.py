"""Sets of intervals, and nesting of events."""
