"""Decoding of the bytes of a profile message into columns."""
