"""A step that was counted: which call it is, its annotation, and its end on devices."""
