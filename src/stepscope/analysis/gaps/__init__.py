"""Explanations of a time range: the causes of its time, and what ran in parallel."""
