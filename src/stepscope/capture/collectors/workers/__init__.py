"""Functions of worker processes, by looks at their memory from outside."""
