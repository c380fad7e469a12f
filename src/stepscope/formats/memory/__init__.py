"""Files about memory alone: snapshots of PyTorch, and JAX's device memory profiles."""
