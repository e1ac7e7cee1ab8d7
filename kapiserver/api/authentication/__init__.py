"""authentication.k8s.io: who a token or a caller is."""
