"""scheduling.k8s.io: which pods come first, and which only together."""
