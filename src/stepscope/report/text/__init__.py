"""Sections of the report as text."""
