"""Compiled functions over arrays. Each module also runs uncompiled, as plain Python."""
