"""Predicted savings of changes to a step."""
