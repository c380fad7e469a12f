"""Allocators replayed: what was in use at each instant, and in which step."""
