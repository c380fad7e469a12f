"""Which ranks of a job a collective waits for."""
