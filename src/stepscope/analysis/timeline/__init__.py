"""Data for a page's timeline: any part of any track, and details of any span."""
