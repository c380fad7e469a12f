"""Signals about the recording itself, and what it knows of the steps."""
