"""Stage 7 of the checklist: compilers."""
