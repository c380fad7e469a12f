"""PyTorch profiler traces (Kineto's JSON): plain or gzip, every generation."""

from stepscope.formats.kineto.trace import name_hosts, read, recorded_together

__all__ = ["name_hosts", "read", "recorded_together"]
