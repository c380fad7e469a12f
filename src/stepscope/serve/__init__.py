"""Results of a log directory over HTTP: a WSGI application and its server."""
