"""Comparison of two runs: same work or not, changes, and predicted savings."""
