"""Logical clusters: many clusters in one process on one store.

Each is an object of the kind Cluster in the management cluster, the cluster that `serve` runs. It
has objects, definitions, roles, users and controllers of its own, and is open while it is used.
`service.py` composes the parts.
"""
