"""Rules: each file turns signals into findings, one function per rule."""
