"""Comparison of two runs: whether their work is the same, changes, and promised gains."""
