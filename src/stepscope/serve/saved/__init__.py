"""The page and the answers about one run in one HTML file, which needs no server."""
