"""events.k8s.io: what happened to objects."""
