"""TLS: settings, contexts, certificates and keys, their reload, and certificates of clients."""
