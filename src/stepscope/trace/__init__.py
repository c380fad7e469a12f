"""Declared tables of a profile, and notes on data lost while recording it."""
