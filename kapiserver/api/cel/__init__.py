"""The Common Expression Language, as Kubernetes speaks it: parsed, type-checked, bounded.

Knows no custom resource and no admission: an expression is compiled for the variables it is given.
"""
