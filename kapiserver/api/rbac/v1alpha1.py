"""rbac.authorization.k8s.io/v1alpha1: the types of v1beta1; the differences are below."""

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
    """A user, group or service account that receives the permissions of a role."""

    kind: str = field(
        1, always=True, required=True, doc="Kind of the subject: User, Group or ServiceAccount."
    )
    apiVersion: str = field(
        2,
        doc=(
            "API version of the subject: v1 for ServiceAccount, "
            "rbac.authorization.k8s.io/v1alpha1 for User and Group. Defaults by kind."
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
