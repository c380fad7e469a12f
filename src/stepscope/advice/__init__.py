"""Judging: signals become findings."""
