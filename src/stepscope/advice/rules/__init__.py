"""Rules: one file each, signals in, a finding out."""
