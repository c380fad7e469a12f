"""Where steps are heard of: a module for each, installed when its framework arrives."""
