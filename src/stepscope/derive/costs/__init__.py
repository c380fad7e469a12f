"""Floating-point operations and bytes of one op execution, by family of ops."""
