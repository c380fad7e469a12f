"""One module per table of the trace."""
