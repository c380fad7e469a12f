"""The flight recorder: keeps a program's last steps and writes them after a failure."""
