"""What all results share: the shape of a tool, statistics, and nulls with reasons."""
