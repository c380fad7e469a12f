"""Activity of host threads: ops, functions, launches."""
