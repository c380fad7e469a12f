"""Requests of a serving program, and the waits of each request."""
