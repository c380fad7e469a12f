"""Hooks that count steps: one module per framework, used when that is imported."""
