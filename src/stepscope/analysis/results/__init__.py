"""Code for all results: the interface of a tool, statistics, and reasons of nulls."""
