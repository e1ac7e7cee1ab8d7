"""events.k8s.io: reports about what happened to objects."""
