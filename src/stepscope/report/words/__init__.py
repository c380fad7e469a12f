"""Names and sentences of results."""
