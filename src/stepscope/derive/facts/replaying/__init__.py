"""What steps would gain if something about them changed."""
