"""audit.k8s.io: audit events and the policy that selects them."""
