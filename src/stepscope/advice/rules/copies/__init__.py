"""Stage 4 of the checklist: placement of ops, and copies."""
