"""rbac.authorization.k8s.io/v1: roles and role bindings."""

from __future__ import annotations

from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field


class AggregationRule(Type):
    """Which ClusterRoles are combined into one."""

    clusterRoleSelectors: list[LabelSelector] = field(
        1,
        doc=(
            "Labels of the ClusterRoles whose rules are combined; one matching selector is "
            "enough. At least one is required."
        ),
    )


class ClusterRole(Kind):
    """Permissions that a ClusterRoleBinding grants in the whole cluster, or a RoleBinding in one
    namespace."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    rules: list[PolicyRule] = field(
        2,
        always=True,
        doc=(
            "The permissions of the role. If aggregationRule is set, the controller overwrites "
            "them."
        ),
    )
    aggregationRule: AggregationRule | None = field(
        3, doc="Builds rules from other ClusterRoles. Manual changes to rules are then overwritten."
    )


class ClusterRoleBinding(Kind):
    """Grants the permissions of a ClusterRole in the whole cluster."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    subjects: list[Subject] = field(
        2, doc="Users, groups and service accounts that receive the permissions."
    )
    roleRef: RoleRef = field(
        3,
        required=True,
        doc=(
            "The ClusterRole that is granted. Cannot be updated; delete the binding and create "
            "another."
        ),
    )


class PolicyRule(Type):
    """Allowed verbs on resources, or on paths that are not resources. Rules only allow; nothing
    denies."""

    verbs: list[str] = field(
        1,
        always=True,
        required=True,
        doc=(
            'Allowed verbs, such as get, list, watch, create, update, patch and delete; "*" '
            "allows all. At least one."
        ),
    )
    apiGroups: list[str] = field(
        2,
        doc=(
            'API groups of the resources; "" is the core group, "*" all groups. Required for '
            "resources."
        ),
    )
    resources: list[str] = field(
        3,
        doc=(
            'Plural names of the resources, such as pods or pods/log; "*" means all, */scale the '
            "scale subresource of all."
        ),
    )
    resourceNames: list[str] = field(
        4,
        doc=(
            "Names of the objects that the rule is limited to. Empty means all. Does not limit "
            "create and deletecollection."
        ),
    )
    nonResourceURLs: list[str] = field(
        5,
        doc=(
            "Paths such as /healthz that are not resources; * may stand at the end. In "
            "ClusterRoles only; excludes apiGroups, resources and resourceNames."
        ),
    )


class Role(Kind):
    """Permissions in one namespace, which a RoleBinding grants."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    rules: list[PolicyRule] = field(
        2, always=True, doc="The permissions of the role in its namespace."
    )


class RoleBinding(Kind):
    """Grants the permissions of a Role or ClusterRole in one namespace."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    subjects: list[Subject] = field(
        2, doc="Users, groups and service accounts that receive the permissions in this namespace."
    )
    roleRef: RoleRef = field(
        3,
        required=True,
        doc=(
            "The Role of this namespace, or the ClusterRole, that is granted. Cannot be updated; "
            "delete the binding and create another."
        ),
    )


class RoleRef(Type):
    """The role that a binding grants."""

    atomic = True

    apiGroup: str = field(
        1,
        always=True,
        doc="API group of the role. The only value, and the default, is rbac.authorization.k8s.io.",
    )
    kind: str = field(
        2,
        always=True,
        required=True,
        doc="Kind of the role: Role or ClusterRole. A ClusterRoleBinding takes a ClusterRole only.",
    )
    name: str = field(3, always=True, required=True, doc="Name of the role. It need not exist yet.")


class Subject(Type):
    """A user, group or service account that receives the permissions of a role."""

    atomic = True

    kind: str = field(
        1, always=True, required=True, doc="Kind of the subject: User, Group or ServiceAccount."
    )
    apiGroup: str = field(
        2,
        doc=(
            "API group of the subject: empty for ServiceAccount, rbac.authorization.k8s.io for "
            "User and Group. Defaults by kind."
        ),
    )
    name: str = field(
        3, always=True, required=True, doc="Name of the user, group or service account."
    )
    namespace: str = field(
        4,
        doc=(
            "Namespace of the service account. Leave it empty for User and Group; required for "
            "ServiceAccount in a ClusterRoleBinding."
        ),
    )
