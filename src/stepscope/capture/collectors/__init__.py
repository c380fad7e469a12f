"""Collectors: each records one source beside the program."""
