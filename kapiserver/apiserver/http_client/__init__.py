"""The client of HTTP requests that the server sends: streams, upgrades, TLS, guards."""
