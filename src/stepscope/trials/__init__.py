"""`stepscope try`: changes that are applied from outside, measured, and kept or not."""
