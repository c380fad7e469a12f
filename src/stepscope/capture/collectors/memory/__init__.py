"""Objects that the program keeps in memory from step to step."""
