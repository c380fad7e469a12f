"""Who may ask a server for what, and where it listens."""
