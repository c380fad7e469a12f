"""Replay of allocator events: the memory in use at each instant, and the step."""
