"""Places in the model's program, and the work charged to each."""
