"""The profile message that TensorFlow, JAX and XLA write: reading and writing it."""
