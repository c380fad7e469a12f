"""PyTorch profiler traces (Kineto's JSON): plain or gzip, every generation."""

from stepscope.formats.kineto.trace import hosts_of, read, recorded_together

__all__ = ["hosts_of", "read", "recorded_together"]
