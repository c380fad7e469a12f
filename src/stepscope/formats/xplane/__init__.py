"""XSpace profiles (`*.xplane.pb`): what TensorFlow and JAX record."""

from stepscope.formats.xplane.trace import read

__all__ = ["read"]
