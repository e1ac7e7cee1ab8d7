"""extensions/v1beta1: types that moved to the groups apps and networking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.apps import v1 as apps_v1
from kapiserver.api.apps import v1beta2 as apps_v1beta2
from kapiserver.api.core.v1 import PodTemplateSpec
from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.networking import v1 as networking_v1
from kapiserver.api.networking import v1beta1 as networking_v1beta1
from kapiserver.api.types import Kind, Type, field, inherit_types, int32, int64, override_field

if TYPE_CHECKING:
    from kapiserver.api.apps.v1beta2 import DaemonSetUpdateStrategy, DeploymentStrategy

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


class DaemonSetSpec(Type):
    """The pods of a daemon set and how they are updated."""

    selector: LabelSelector | None = field(
        1,
        doc="Labels of the pods that belong to the daemon set. If it is absent, the labels of "
        "the template are used.",
    )
    template: PodTemplateSpec = field(
        2,
        doc="The pods to run on each node that matches the template. The restartPolicy must be "
        "Always.",
    )
    updateStrategy: DaemonSetUpdateStrategy = field(
        3,
        doc="How existing pods are replaced after a change of the template. OnDelete by default "
        "in this version.",
    )
    minReadySeconds: int32 = field(
        4,
        doc="How many seconds a new pod must be ready before it counts as available. Defaults "
        "to 0: as soon as it is ready.",
    )
    templateGeneration: int64 = field(
        5,
        doc="Number of the current template, which the server raises with each change of it. "
        "Deprecated.",
    )
    revisionHistoryLimit: int32 | None = field(
        6, doc="How many old revisions to keep for rolling back. Defaults to 10."
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


class DeploymentSpec(Type):
    """The pods of a deployment and how their changes are rolled out."""

    replicas: int32 | None = field(1, doc="How many pods to run; zero or more. Defaults to 1.")
    selector: LabelSelector | None = field(
        2,
        doc="Labels of the pods that belong to the deployment. If it is absent, the labels of "
        "the template are used.",
    )
    template: PodTemplateSpec = field(
        3, doc="The pods to run. A change starts a rollout. Its restartPolicy must be Always."
    )
    strategy: DeploymentStrategy = field(
        4, patch="retainKeys", doc="How old pods are replaced by new ones."
    )
    minReadySeconds: int32 = field(
        5,
        doc="How many seconds a new pod must be ready, without a container crash, to count as "
        "available. Defaults to 0.",
    )
    revisionHistoryLimit: int32 | None = field(
        6, doc="How many old replica sets to keep for rolling back. By default, all are kept."
    )
    paused: bool = field(
        7,
        doc="If true, changes of the template are not rolled out, and the progress deadline "
        "does not run.",
    )
    rollbackTo: RollbackConfig | None = field(
        8,
        doc="The revision to which the controller rolls back; it clears the field when it has "
        "done so. Deprecated.",
    )
    progressDeadlineSeconds: int32 | None = field(
        9,
        doc="After how many seconds without progress a rollout is reported as failed. By "
        "default, never.",
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
