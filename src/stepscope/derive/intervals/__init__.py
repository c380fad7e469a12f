"""Sets of intervals, and which event encloses which."""
