"""One recording: start, storage on disk, assembly and saving."""
