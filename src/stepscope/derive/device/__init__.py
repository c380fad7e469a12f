"""Device activities: launch call, op, class and precision of each activity."""
