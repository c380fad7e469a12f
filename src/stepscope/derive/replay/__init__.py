"""What a step would take without something: its dependencies, run again."""
