"""The flight recorder: the last steps of a program, kept until one goes wrong."""
