"""From columns and plain values to the bytes of a profile message."""
