"""Readers: bytes of a known format become the tables of a trace."""
