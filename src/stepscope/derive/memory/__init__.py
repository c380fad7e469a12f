"""Replay of allocator events: the memory in use and the step of each event."""
