"""Groups of RPCs."""
