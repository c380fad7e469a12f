"""Rules that all readers share when they fill the tables."""
