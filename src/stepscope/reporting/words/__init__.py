"""Names and sentences by which reports describe results."""
