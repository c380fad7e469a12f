"""Stage 3 of the checklist: feeding the device."""
