"""PyTorch profiler traces (Kineto's JSON): plain or gzip, every generation."""

from stepscope.formats.kineto.hosts import hosts_of, recorded_together
from stepscope.formats.kineto.trace import read

__all__ = ["hosts_of", "read", "recorded_together"]
