"""Collectors: each records one source next to the program."""
