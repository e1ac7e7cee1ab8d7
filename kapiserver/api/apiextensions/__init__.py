"""apiextensions.k8s.io: custom resources."""
