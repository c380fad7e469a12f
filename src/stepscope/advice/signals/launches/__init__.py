"""Signals about how ops reach a device: one by one, small, compiled."""
