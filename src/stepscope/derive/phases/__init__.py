"""Forward, loss, backward and optimizer: the phase of each piece of work."""
