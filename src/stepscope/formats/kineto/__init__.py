"""Reader of PyTorch profiler traces: Kineto JSON of every generation, plain or gzip."""

from stepscope.formats.kineto.trace import name_hosts, read, recorded_together

__all__ = ["name_hosts", "read", "recorded_together"]
