"""The group discovery."""
