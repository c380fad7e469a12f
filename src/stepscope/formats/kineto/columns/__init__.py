"""From messages to columns, with interned names."""
