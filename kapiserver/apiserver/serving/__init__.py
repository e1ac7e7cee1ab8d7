"""Sockets, TLS, workers, logs and the process itself."""
