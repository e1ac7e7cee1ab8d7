"""Load drivers: they know the Kubernetes HTTP API, a base URL, a token, a CA and process ids."""
