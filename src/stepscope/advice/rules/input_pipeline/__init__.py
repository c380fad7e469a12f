"""Stage 1 of the checklist: waiting for data."""
