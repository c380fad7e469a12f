"""Where steps begin and end, and to which step each device activity belongs."""
