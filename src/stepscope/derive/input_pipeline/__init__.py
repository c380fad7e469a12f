"""The input pipeline: graph of stages, calls, and handovers between threads."""
