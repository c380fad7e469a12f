"""Checks of what can be recorded on this machine, with remedies."""
