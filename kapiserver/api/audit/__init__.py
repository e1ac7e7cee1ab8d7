"""audit.k8s.io: what the server records of requests, and what decides that."""
