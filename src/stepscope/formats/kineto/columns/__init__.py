"""Conversion of Kineto messages to columns, with interned names."""
