"""Builders of trace tables from a decoded profile message, grouped by topic."""
