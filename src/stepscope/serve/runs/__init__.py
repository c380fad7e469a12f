"""The runs of a log directory: how they are found and opened, and answers on them."""
