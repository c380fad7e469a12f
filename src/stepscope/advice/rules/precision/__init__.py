"""Stage 6 of the checklist: number formats."""
