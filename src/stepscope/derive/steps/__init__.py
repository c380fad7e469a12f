"""Where steps begin and end, and which activity belongs to which step."""
