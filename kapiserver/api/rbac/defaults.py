"""Defaulting of the rbac group: API groups of roles and subjects.

Mirrors pkg/apis/rbac/v1/defaults.go.
"""

from __future__ import annotations

from kapiserver.api.defaulting import DefaultFunction
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.rbac import v1
from kapiserver.api.types import Tree, Type

_GROUP = "rbac.authorization.k8s.io"


def _default_role_ref(reference: Tree) -> None:
    if not reference.get("apiGroup"):
        reference["apiGroup"] = _GROUP


def _default_subject(subject: Tree) -> None:
    if not subject.get("apiGroup") and subject.get("kind") in ("Group", "User"):
        subject["apiGroup"] = _GROUP
        reorder_keys(subject, v1.Subject)


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1.RoleRef: _default_role_ref,
    v1.Subject: _default_subject,
}
