"""Kinds of events and ops, by their names."""
