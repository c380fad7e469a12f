"""Functions of worker processes, sampled by reading their memory from outside."""
