"""The rows and lanes that the trace viewer draws."""
