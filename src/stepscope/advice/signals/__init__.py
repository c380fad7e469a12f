"""Signals: named numbers taken from derivations and results."""
