"""A report as part of a run of an experiment tracker."""
