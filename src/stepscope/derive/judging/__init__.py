"""From an effect of each step to what is judged of it, for rules and tools alike."""
