"""Reading and writing of the profile message of TensorFlow, JAX and XLA."""
