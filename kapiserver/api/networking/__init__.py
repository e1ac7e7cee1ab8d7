"""networking.k8s.io: ingresses, network policies, and the address ranges of Services."""
