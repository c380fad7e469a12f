"""What a change does to the replayed steps."""
