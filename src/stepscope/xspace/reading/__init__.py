"""From the bytes of a profile message to columns."""
