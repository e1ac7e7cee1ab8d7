"""Clients of webhooks: of a `clientConfig` in an object, or of a kubeconfig file."""
