"""Verdicts for rules and tools: whether lost time in the steps is a finding."""
