"""How long a step would take after a change: a replay of its dependencies."""
