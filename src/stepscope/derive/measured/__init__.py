"""What was measured apart from the recording, joined to what was recorded."""
