"""Inputs of the advice rules: shares, counts and parts of the step time."""
