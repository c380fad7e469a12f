"""What the host's threads did: ops, functions, launches."""
