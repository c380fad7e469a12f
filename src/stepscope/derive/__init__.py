"""Derivations: what the tables imply, each computed once."""
