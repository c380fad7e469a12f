"""The input pipeline: stages, their calls, and handovers between threads."""
