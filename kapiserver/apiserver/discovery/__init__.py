"""What the server says of itself: discovery, versions, OpenAPI, OpenID."""
