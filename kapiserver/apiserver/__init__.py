"""HTTP: the request's way from the socket to the store and back."""
