"""Simulated CSI drivers: they make, delete, expand and attach volumes."""
