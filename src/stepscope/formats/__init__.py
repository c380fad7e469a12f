"""Readers that convert files of a known format into the tables of a trace."""
