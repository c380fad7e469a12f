"""What the name of an event or an op says it is."""
