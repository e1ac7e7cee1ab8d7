"""storagemigration.k8s.io: rewriting stored objects in the newest version."""
