"""Rules: one file each, signals in, a finding out, and the words for it."""
