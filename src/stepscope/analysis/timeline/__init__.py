"""What a page shows of the timeline: any part of any track, and any one span."""
