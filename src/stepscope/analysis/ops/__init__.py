"""Rows of ops that several tools show."""
