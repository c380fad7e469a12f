"""From columns to the tables of a trace, one module each."""
