"""rbac.authorization.k8s.io: roles and role bindings."""
