"""Judging steps that several rules share, from signals to a finding."""
