"""Access to a profiler server: who may call it, and where it listens."""
