"""Custom resources: which definitions are served, and the webhooks that convert their objects."""
