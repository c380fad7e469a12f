"""Device activities: the launch, op, class and precision of each."""
