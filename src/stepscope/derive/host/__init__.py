"""Work of the host's threads: ops, functions, launches."""
