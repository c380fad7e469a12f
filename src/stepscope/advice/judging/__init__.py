"""Code that several rules share for judging an effect, from signals to a finding."""
