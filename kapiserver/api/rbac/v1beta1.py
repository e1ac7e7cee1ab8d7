"""rbac.authorization.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.rbac import v1
from kapiserver.api.types import inherit_types

inherit_types(__name__, v1)


class RoleRef(v1.RoleRef):
    atomic = False


class Subject(v1.Subject):
    atomic = False
