"""Hooks that count steps: one module per framework, used if the program imports it."""
