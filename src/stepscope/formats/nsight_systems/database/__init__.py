"""The database: opened for reading alone, its tables checked against what is known."""
