"""coordination.k8s.io: leases."""
