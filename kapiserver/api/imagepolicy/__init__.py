"""imagepolicy.k8s.io: whether images may run."""
