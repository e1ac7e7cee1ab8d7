"""custom.metrics.k8s.io: metrics of any objects."""
