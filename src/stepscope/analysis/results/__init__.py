"""What all results share: the interface of a tool, statistics, and reasons of nulls."""
