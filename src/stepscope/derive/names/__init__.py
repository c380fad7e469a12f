"""Kinds of events and ops, recognised by their names."""
