"""Breakdown of step time: each instant of a window has exactly one cause (owner)."""
