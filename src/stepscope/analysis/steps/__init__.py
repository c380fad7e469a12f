"""Rows of steps that several tools show."""
