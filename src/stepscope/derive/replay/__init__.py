"""Prediction of step time after a change, by replaying the dependencies of its work."""
