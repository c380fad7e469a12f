"""Recording PyTorch with its own profiler."""
