"""Implementation of `stepscope try`."""
