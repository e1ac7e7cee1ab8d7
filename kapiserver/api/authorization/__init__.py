"""authorization.k8s.io: reviews that check what a user may do."""
