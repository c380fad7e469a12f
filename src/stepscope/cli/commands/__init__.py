"""Declarations of the commands: names, arguments, options and help."""
