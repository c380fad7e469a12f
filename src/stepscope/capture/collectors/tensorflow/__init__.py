"""Recording TensorFlow with its own profiler."""
