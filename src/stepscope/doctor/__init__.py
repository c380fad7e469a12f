"""What can be recorded on this machine, what cannot, and what fixes it."""
