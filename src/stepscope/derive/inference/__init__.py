"""Requests of a serving program, and what each waited for."""
