"""The Common Expression Language (CEL) as Kubernetes uses it: parser, type checker, cost limits.

Knows no custom resource and no admission: an expression is compiled for given variables.
"""
