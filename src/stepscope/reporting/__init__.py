"""Renderers that write results and findings as text, JSON, CSV or Parquet."""
