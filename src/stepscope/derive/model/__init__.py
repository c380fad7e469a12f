"""Trees of the model's program, and the costs charged to each node."""
