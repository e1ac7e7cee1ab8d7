"""discovery.k8s.io: the endpoints of services, in slices."""
