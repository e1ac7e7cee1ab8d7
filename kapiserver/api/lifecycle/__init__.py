"""lifecycle.k8s.io: requests for evictions, and their progress."""
