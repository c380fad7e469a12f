"""Signals about where ops run, and what is copied for it."""
