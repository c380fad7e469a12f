"""Several profile messages made into one."""
