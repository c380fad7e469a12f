"""Models of what a step becomes after a change."""
