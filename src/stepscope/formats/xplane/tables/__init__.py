"""From a decoded profile message to the tables of a trace, one module each."""
