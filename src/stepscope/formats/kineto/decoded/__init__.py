"""Events of a Kineto file after decoding: placed on tracks, ordered and linked."""
