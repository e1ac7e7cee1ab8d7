"""rbac.authorization.k8s.io/v1alpha1: the types of v1beta1, but for the differences below."""

from __future__ import annotations

from kapiserver.api.rbac import v1, v1beta1
from kapiserver.api.types import Type, field, inherit_types, override_field

inherit_types(__name__, v1beta1)


class PolicyRule(v1.PolicyRule):
    apiGroups = override_field(number=3)
    resources = override_field(number=4)
    resourceNames = override_field(number=5)
    nonResourceURLs = override_field(number=6)


class Subject(Type):
    """A user, a group or a service account."""

    kind: str = field(1, always=True, required=True)
    apiVersion: str = field(2)
    name: str = field(3, always=True, required=True)
    namespace: str = field(4)
