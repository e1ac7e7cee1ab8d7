"""The authorizer RBAC, its compiled rules, and the index of bindings."""
