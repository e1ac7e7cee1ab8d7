"""Certificate signing requests, and the trust bundles that the server publishes."""
