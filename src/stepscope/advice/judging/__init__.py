"""Code that several rules share for judging lost time, from signals to a finding."""
