"""Signals about the kernels of a device."""
