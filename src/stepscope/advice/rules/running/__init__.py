"""Stage 9 of the checklist: memory, and changes during a run."""
