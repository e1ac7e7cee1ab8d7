"""discovery.k8s.io: the addresses behind services, in slices."""
