"""The time window of each step, on the host and on each device."""
