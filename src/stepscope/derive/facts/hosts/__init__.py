"""Facts about hosts: batches, functions, ops and worker processes."""
