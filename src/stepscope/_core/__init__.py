"""Compiled kernels: arrays in, arrays out. Each module also runs uncompiled."""
