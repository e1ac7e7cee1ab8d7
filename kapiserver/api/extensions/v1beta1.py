"""extensions/v1beta1: types that moved to the groups apps and networking."""

from __future__ import annotations

from kapiserver.api.apps import v1 as apps_v1
from kapiserver.api.apps import v1beta2 as apps_v1beta2
from kapiserver.api.networking import v1 as networking_v1
from kapiserver.api.networking import v1beta1 as networking_v1beta1
from kapiserver.api.types import Kind, Type, field, inherit_types, int64, override_field

inherit_types(
    __name__,
    apps_v1beta2,
    without=(
        "ControllerRevision",
        "RollingUpdateStatefulSetStrategy",
        "StatefulSet",
        "StatefulSetCondition",
        "StatefulSetOrdinals",
        "StatefulSetPersistentVolumeClaimRetentionPolicy",
        "StatefulSetSpec",
        "StatefulSetStatus",
        "StatefulSetUpdateStrategy",
    ),
)
inherit_types(
    __name__,
    networking_v1beta1,
    without=(
        "IPAddress",
        "IPAddressSpec",
        "IngressClass",
        "IngressClassParametersReference",
        "IngressClassSpec",
        "ParentReference",
        "ServiceCIDR",
        "ServiceCIDRSpec",
        "ServiceCIDRStatus",
    ),
)
inherit_types(
    __name__,
    networking_v1,
    only=(
        "IPBlock",
        "NetworkPolicy",
        "NetworkPolicyEgressRule",
        "NetworkPolicyIngressRule",
        "NetworkPolicyPeer",
        "NetworkPolicyPort",
    ),
)


class DaemonSet(apps_v1.DaemonSet):
    spec = override_field(required=False)


class DaemonSetSpec(apps_v1.DaemonSetSpec):
    selector = override_field(
        always=False,
        required=False,
        doc=(
            "Labels of the pods that belong to the daemon set. If it is absent, the labels of the "
            "template are used."
        ),
    )
    template = override_field(required=False)
    updateStrategy = override_field(
        doc=(
            "The way in which existing pods are replaced after the template changed. OnDelete by "
            "default in this version."
        )
    )
    templateGeneration: int64 = field(
        5,
        before="revisionHistoryLimit",
        doc=(
            "Number of the current template, which the server raises with each change of it. "
            "Deprecated."
        ),
    )


class Deployment(apps_v1.Deployment):
    spec = override_field(required=False)


class DeploymentRollback(Kind):
    """A request to roll a deployment back; the body of the rollback subresource."""

    listed = False

    name: str = field(1, always=True, doc="Name of the deployment to roll back.")
    updatedAnnotations: dict[str, str] = field(
        2, doc="Annotations to set on the deployment when it is rolled back."
    )
    rollbackTo: RollbackConfig = field(
        3, doc="The revision to which the deployment is rolled back."
    )


class DeploymentSpec(apps_v1.DeploymentSpec):
    selector = override_field(
        always=False,
        required=False,
        doc=(
            "Labels of the pods that belong to the deployment. If it is absent, the labels of the "
            "template are used."
        ),
    )
    template = override_field(required=False)
    revisionHistoryLimit = override_field(
        doc="Number of old replica sets to keep for rolling back. By default, all are kept."
    )
    rollbackTo: RollbackConfig | None = field(
        8,
        before="progressDeadlineSeconds",
        doc=(
            "The revision to which the controller rolls back; it clears the field when it has "
            "done so. Deprecated."
        ),
    )
    progressDeadlineSeconds = override_field(
        doc=(
            "Seconds without progress after which a rollout is reported as failed. By default, "
            "never."
        )
    )


class NetworkPolicySpec(networking_v1.NetworkPolicySpec):
    policyTypes = override_field(enum=())


class ReplicaSet(apps_v1.ReplicaSet):
    spec = override_field(required=False)


class ReplicaSetSpec(apps_v1.ReplicaSetSpec):
    selector = override_field(always=False, required=False)


class RollbackConfig(Type):
    """The revision to which a deployment is rolled back."""

    revision: int64 = field(
        1, doc="Number of the revision. 0, the default, is the one before the current revision."
    )
