"""The input pipeline: its graph of stages, its calls, and who hands data to whom."""
