"""Costs: floating-point operations and bytes of one execution, by op family."""
