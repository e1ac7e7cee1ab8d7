"""storagemigration.k8s.io: migrations of stored objects to the current storage version."""
