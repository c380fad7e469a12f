"""Renderers: results and findings become text, JSON, CSV or Parquet."""
