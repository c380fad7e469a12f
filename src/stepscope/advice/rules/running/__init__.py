"""Stage 9 of the checklist: memory, and how the run goes on."""
