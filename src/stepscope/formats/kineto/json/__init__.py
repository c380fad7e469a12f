"""From the bytes of a PyTorch trace to messages."""
