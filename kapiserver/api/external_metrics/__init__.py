"""external.metrics.k8s.io: metrics that are not of Kubernetes objects."""
