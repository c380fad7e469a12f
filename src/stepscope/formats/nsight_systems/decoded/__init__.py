"""Events, the tracks that they lie on, and the texts that name them."""
