"""Collectors: each one records one source of events while the program runs."""
