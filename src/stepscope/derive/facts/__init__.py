"""What rules read: shares, parts and counts that follow from derivations."""
