"""Ops: their database, placement, and the costs of their executions."""
