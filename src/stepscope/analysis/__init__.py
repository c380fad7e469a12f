"""Tools: the data of a profile becomes one frozen result."""
