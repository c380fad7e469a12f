"""Floating-point operations and bytes of one execution, by family of ops."""
