"""The peers of a server: other servers of the same store, which may serve other API versions."""
