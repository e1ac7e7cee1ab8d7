"""The resources of the rbac group, in the order of discovery. Imports no types."""

from __future__ import annotations

from functools import partial

from kapiserver.api.group import Resource

_rbac = partial(Resource, group="rbac.authorization.k8s.io", versions=("v1",), storage_version="v1")

RESOURCES = (
    _rbac(name="clusterrolebindings", kind="ClusterRoleBinding", namespaced=False),
    _rbac(name="clusterroles", kind="ClusterRole", namespaced=False),
    _rbac(name="rolebindings", kind="RoleBinding", namespaced=True),
    _rbac(name="roles", kind="Role", namespaced=True),
)
