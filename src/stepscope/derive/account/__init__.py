"""One account of a step's time: every instant of every window has one owner."""
