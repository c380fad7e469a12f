"""The steps that rules of one shape share, from signals to a finding."""
