"""What every table of a trace starts from: its events placed, ordered and linked."""
