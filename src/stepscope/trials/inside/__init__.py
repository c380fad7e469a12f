"""Code of `stepscope try` that runs inside the program: it sets knobs and times steps.

It imports the standard library and `capture` only, and no framework that the program
has not imported. This file imports nothing, because a process must start fast.
"""
