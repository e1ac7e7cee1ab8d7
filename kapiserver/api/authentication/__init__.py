"""authentication.k8s.io: reviews of tokens and identities, and requests for tokens."""
