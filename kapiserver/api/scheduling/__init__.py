"""scheduling.k8s.io: priority classes, workloads and groups of pods."""
