"""Comparison of two runs: same work or not, changes, and gains that were promised."""
