"""Rules about device memory: how full and how fragmented it is, and leaks."""
