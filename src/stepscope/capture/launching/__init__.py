"""`stepscope run`: recording a program that was not changed.

The launcher hands a plan to the program's processes by environment; a `sitecustomize`
of ours arms each Python process, which counts its own steps and records a window of
them. Nothing is imported here: what is armed must stay light.
"""
