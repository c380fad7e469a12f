"""Stage 9 of the checklist: memory, and changes in the course of a run."""
