"""networking.k8s.io: ways into the cluster, and who may talk to whom."""
