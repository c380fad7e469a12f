"""Verdicts on effects over steps, for rules and tools."""
