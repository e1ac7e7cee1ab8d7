"""What takes the place of CSI drivers: they make, delete, expand and attach volumes."""
