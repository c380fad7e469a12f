"""What `stepscope explain` does: times are read, and a stretch is explained."""
