"""apidiscovery.k8s.io: aggregated discovery, all groups and resources in one document."""
