"""node.k8s.io: RuntimeClasses, the container runtimes that pods can choose."""
