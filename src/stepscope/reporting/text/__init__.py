"""Pages of tools as text."""
