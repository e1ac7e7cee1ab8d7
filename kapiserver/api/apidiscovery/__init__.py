"""apidiscovery.k8s.io: aggregated discovery."""
