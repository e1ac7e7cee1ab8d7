"""The API groups this server knows, in the order discovery shows them.

To add a group or a version: a module under `api/<group>/` and one line here.
"""

from kapiserver.api.group import Group

GROUPS = (
    Group(name="", package="core", versions=("v1",)),
    Group(name="apps", package="apps", versions=("v1",)),
    Group(name="autoscaling", package="autoscaling", versions=("v2", "v1")),
    Group(name="coordination.k8s.io", package="coordination", versions=("v1",)),
)

META = Group(name="meta.k8s.io", package="meta", versions=("v1",))
"""Kinds that every group shares: Status, DeleteOptions, Table, ... Spoken, never stored."""

DISCOVERY = Group(name="apidiscovery.k8s.io", package="apidiscovery", versions=("v2",))
"""Kinds of aggregated discovery. Spoken, never stored, and no group that discovery shows."""
