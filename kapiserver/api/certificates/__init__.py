"""certificates.k8s.io: requests for certificates, and bundles of trusted ones."""
