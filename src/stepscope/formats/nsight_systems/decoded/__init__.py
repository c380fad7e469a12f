"""Events of an Nsight Systems database, with their tracks and names."""
