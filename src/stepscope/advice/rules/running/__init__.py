"""Rules about changes during a run, CPU threads and debug output."""
