"""The results of a log directory over HTTP: one WSGI application, and its server."""
