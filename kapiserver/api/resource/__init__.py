"""resource.k8s.io: devices: what there is, what is claimed and who got it."""
