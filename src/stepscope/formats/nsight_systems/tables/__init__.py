"""Builders of trace tables from an Nsight Systems database, grouped by topic."""
