"""Collectives: totals, calls, matching across hosts, waits, and clock offsets."""
