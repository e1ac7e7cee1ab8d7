"""rbac.authorization.k8s.io/v1: roles and who has them."""

from __future__ import annotations

from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field


class AggregationRule(Type):
    """Which cluster roles are joined into one."""

    clusterRoleSelectors: list[LabelSelector] = field(
        1, doc="Cluster roles whose rules are taken, by labels."
    )


class ClusterRole(Kind):
    """Permissions in the whole cluster."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    rules: list[PolicyRule] = field(2, always=True, doc="What may be done.")
    aggregationRule: AggregationRule | None = field(3, doc="Which roles the rules come from.")


class ClusterRoleBinding(Kind):
    """Who has a cluster role, everywhere."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    subjects: list[Subject] = field(2, doc="Who has the role.")
    roleRef: RoleRef = field(3, required=True, doc="The role.")


class PolicyRule(Type):
    """Verbs on resources or paths."""

    verbs: list[str] = field(1, always=True, required=True, doc='What may be done, or "*".')
    apiGroups: list[str] = field(2, doc='Groups, or "*".')
    resources: list[str] = field(3, doc='Resources, or "*".')
    resourceNames: list[str] = field(4, doc="Names; empty for all.")
    nonResourceURLs: list[str] = field(5, doc='Paths, with "*" at their end.')


class Role(Kind):
    """Permissions in a namespace."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    rules: list[PolicyRule] = field(2, always=True, doc="What may be done.")


class RoleBinding(Kind):
    """Who has a role in a namespace."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    subjects: list[Subject] = field(2, doc="Who has the role.")
    roleRef: RoleRef = field(3, required=True, doc="The role.")


class RoleRef(Type):
    """The role that is given."""

    atomic = True

    apiGroup: str = field(1, always=True, doc="The group of the role.")
    kind: str = field(2, always=True, required=True, doc="Role or ClusterRole.")
    name: str = field(3, always=True, required=True, doc="Its name.")


class Subject(Type):
    """A user, a group or a service account."""

    atomic = True

    kind: str = field(1, always=True, required=True, doc="User, Group or ServiceAccount.")
    apiGroup: str = field(2, doc="The group of the object; empty: core.")
    name: str = field(3, always=True, required=True, doc="Its name.")
    namespace: str = field(4, doc="Its namespace.")
