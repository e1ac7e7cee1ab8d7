"""internal.apiserver.k8s.io: StorageVersions, which report how API servers store resources."""
