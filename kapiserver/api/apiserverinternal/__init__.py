"""internal.apiserver.k8s.io: the versions that servers read and write."""
