"""Explorations of tests with the mark `kube_explore`."""
