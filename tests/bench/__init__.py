"""Benchmarks. They know the Kubernetes HTTP API, a URL, a token, a CA and process ids."""
