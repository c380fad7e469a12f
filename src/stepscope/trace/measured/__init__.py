"""Tables of what was measured apart from any recording."""
