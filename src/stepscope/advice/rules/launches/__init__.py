"""Stage 3 of the checklist: keeping the device busy."""
