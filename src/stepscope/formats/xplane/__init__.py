"""Reader of XSpace profiles (`*.xplane.pb`) of TensorFlow and JAX, and timelines."""

from stepscope.formats.xplane.trace import read, read_timeline

__all__ = ["read", "read_timeline"]
