"""Readers of PyTorch's memory snapshots and JAX's device memory profiles."""
