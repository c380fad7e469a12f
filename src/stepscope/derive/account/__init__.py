"""Breakdown of step time: every instant of every window has one owner, its cause."""
