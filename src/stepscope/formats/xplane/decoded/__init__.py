"""Tracks, timeline and stats of a decoded profile message, shared by all tables."""
