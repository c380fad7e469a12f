"""Derivations: values that are computed from the tables, each once."""
