"""Commands that run a program under one of NVIDIA's profilers."""
