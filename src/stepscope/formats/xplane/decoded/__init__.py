"""What is read off a decoded profile message, before any table."""
