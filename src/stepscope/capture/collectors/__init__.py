"""Collectors: each records one source while the program runs."""
