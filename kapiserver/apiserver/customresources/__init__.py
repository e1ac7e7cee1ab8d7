"""Custom resources: the served definitions, and the webhooks that convert their objects."""
