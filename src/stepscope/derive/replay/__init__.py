"""Prediction of step time after a change, by replay of the dependency graph."""
