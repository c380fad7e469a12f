"""Comparison of two runs: same work or not, what changed, which promises came true."""
