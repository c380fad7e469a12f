"""Rows and lanes of the trace viewer."""
