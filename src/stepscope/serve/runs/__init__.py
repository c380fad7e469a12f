"""The runs of a log directory: found, opened, kept and answered from."""
