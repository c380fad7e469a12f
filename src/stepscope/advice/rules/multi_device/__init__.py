"""Stage 8 of the checklist: several devices."""
