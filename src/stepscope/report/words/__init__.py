"""Names and sentences for results."""
