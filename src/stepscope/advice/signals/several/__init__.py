"""Signals about several devices, and what they exchange."""
