"""Recording JAX with its own profiler."""
