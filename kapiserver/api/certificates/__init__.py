"""certificates.k8s.io: certificate signing requests, pod certificates and trust bundles."""
