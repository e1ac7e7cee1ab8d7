"""Table columns of the rbac group. Roles have the default columns.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import AGE, NAME, CellReader, Column, Columns
from kapiserver.api.types import Tree


def _role(binding: Tree) -> str:
    reference = value_at(binding, "roleRef") or {}
    return f"{reference.get('kind') or ''}/{reference.get('name') or ''}"


def _subjects(kind: str) -> CellReader:
    return lambda binding: ", ".join(
        subject.get("name") or ""
        for subject in binding.get("subjects") or ()
        if subject.get("kind") == kind
    )


def _accounts(binding: Tree) -> str:
    return ", ".join(
        f"{subject.get('namespace') or ''}/{subject.get('name') or ''}"
        for subject in binding.get("subjects") or ()
        if subject.get("kind") == "ServiceAccount"
    )


_BINDING = Columns(
    (
        NAME,
        Column("Role", _role, "Role that is granted."),
        AGE,
        Column("Users", _subjects("User"), "Users that receive the role.", priority=1),
        Column("Groups", _subjects("Group"), "Groups that receive the role.", priority=1),
        Column("ServiceAccounts", _accounts, "Service accounts that receive the role.", priority=1),
    )
)

COLUMNS: dict[str, Columns] = {"ClusterRoleBinding": _BINDING, "RoleBinding": _BINDING}
