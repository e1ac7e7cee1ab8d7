"""storage.k8s.io: classes, drivers and attachments of volumes."""
