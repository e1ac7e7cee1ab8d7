"""resource.k8s.io: devices, claims for devices, and device classes."""
