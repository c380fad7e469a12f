"""Stage 5 of the checklist: how well kernels use the device."""
