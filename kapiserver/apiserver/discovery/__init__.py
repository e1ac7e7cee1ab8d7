"""API discovery, the server version, OpenAPI documents and OpenID discovery."""
