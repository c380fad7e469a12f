"""What a derivation is, and how each is computed once, side by side."""
