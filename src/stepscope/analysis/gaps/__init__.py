"""Who owns a stretch of time, and what ran meanwhile."""
