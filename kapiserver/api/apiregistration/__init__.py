"""apiregistration.k8s.io: APIServices, which register the servers of group versions."""
