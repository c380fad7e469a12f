"""What all that look at stacks share: when they look, and how frames are written."""
