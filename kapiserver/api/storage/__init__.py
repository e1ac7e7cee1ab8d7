"""storage.k8s.io: storage classes, CSI drivers and volume attachments."""
