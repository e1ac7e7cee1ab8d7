"""rbac.authorization.k8s.io: roles and who has them."""
