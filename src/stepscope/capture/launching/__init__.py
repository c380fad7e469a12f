"""`stepscope run`: recording an unmodified program.

The launcher passes a plan to the program's processes in an environment variable.
Stepscope's `sitecustomize` prepares (arms) each Python process, which counts its own
steps and records a window of them. This file imports no module, because an armed
process must start fast.
"""
