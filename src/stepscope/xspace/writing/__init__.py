"""Encoding of columns and plain values as the bytes of a profile message."""
