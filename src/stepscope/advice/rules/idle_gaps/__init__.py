"""Stage 2 of the checklist: idle time between and inside steps."""
