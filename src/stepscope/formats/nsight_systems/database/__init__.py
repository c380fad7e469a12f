"""Read-only access to the database; only declared tables and columns are read."""
