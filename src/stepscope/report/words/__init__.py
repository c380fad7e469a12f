"""Names and sentences of results, and their colours."""
