"""Two runs side by side: same work or not, what changed, which promises came true."""
