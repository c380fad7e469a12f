"""The declared tables of a profile, and what was lost while recording it."""
