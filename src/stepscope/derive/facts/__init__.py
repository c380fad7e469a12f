"""Inputs of the advice rules: shares, parts and counts computed from derivations."""
