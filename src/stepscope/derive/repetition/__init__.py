"""Repeated patterns in a sequence of symbols."""
