"""Logging a report to a run of an experiment tracker."""
