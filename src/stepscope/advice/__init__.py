"""Advice: rules that turn signals of a profile into findings."""
