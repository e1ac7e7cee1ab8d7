"""node.k8s.io: the runtimes of containers."""
