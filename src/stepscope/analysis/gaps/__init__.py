"""Explanations of a time range: its owners, and what ran at the same time."""
