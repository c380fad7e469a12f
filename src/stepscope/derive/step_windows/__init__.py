"""The interval of time of each step, on the host and on each device."""
