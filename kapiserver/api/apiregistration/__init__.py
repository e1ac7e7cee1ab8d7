"""apiregistration.k8s.io: servers that answer for whole group-versions."""
