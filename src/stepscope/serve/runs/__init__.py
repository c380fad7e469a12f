"""The runs of a log directory: finding and opening them, and answers about them."""
