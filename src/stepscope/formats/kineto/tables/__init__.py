"""Builders of trace tables from a Kineto file's columns, one module per topic."""
