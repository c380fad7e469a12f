"""Facts about devices: their kernels, launches, copies and collectives."""
