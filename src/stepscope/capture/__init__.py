"""Recording of a running program: from annotations and collectors to a run directory.

This module imports nothing, so that importing `annotate` alone stays cheap.
"""
