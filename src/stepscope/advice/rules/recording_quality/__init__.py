"""Stage 0 of the checklist: whether the recording can be trusted."""
