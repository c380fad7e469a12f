"""Parser of PyTorch's JSON traces, from bytes to messages."""
