"""Ops: their time on host and devices, and the costs of their executions."""
