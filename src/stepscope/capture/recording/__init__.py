"""One recording: started, kept on disk, assembled and saved."""
