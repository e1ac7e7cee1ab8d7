"""What every request passes before its handler, one filter a module."""
