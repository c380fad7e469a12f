"""Where the time of each step went: categories, and who is to blame for idle time."""
