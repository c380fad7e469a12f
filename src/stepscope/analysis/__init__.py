"""Tools: each computes one frozen result from the data of a profile."""
