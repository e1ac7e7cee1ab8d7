"""The built-in roles and bindings, and aggregated roles."""
