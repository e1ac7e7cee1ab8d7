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
    """Which pods, made from what, and how they are replaced."""

    selector: LabelSelector | None = field(1)
    template: PodTemplateSpec = field(2)
    updateStrategy: DaemonSetUpdateStrategy = field(3)
    minReadySeconds: int32 = field(4)
    templateGeneration: int64 = field(5)
    revisionHistoryLimit: int32 | None = field(6)


class Deployment(apps_v1.Deployment):
    spec = override_field(required=False)


class DeploymentRollback(Kind):
    """Asks for an earlier state of a deployment."""

    listed = False

    name: str = field(1, always=True)
    updatedAnnotations: dict[str, str] = field(2)
    rollbackTo: RollbackConfig = field(3)


class DeploymentSpec(Type):
    """How many pods, made from what, and how they are replaced."""

    replicas: int32 | None = field(1, doc="How many pods there should be.")
    selector: LabelSelector | None = field(2, doc="Labels of the deployment's pods.")
    template: PodTemplateSpec = field(3, doc="What the pods look like.")
    strategy: DeploymentStrategy = field(
        4, patch="retainKeys", doc="How old pods give way to new ones."
    )
    minReadySeconds: int32 = field(5)
    revisionHistoryLimit: int32 | None = field(6)
    paused: bool = field(7, doc="No rollout while true.")
    rollbackTo: RollbackConfig | None = field(8)
    progressDeadlineSeconds: int32 | None = field(9)


class NetworkPolicySpec(networking_v1.NetworkPolicySpec):
    policyTypes = override_field(enum=())


class ReplicaSet(apps_v1.ReplicaSet):
    spec = override_field(required=False)


class ReplicaSetSpec(apps_v1.ReplicaSetSpec):
    selector = override_field(always=False, required=False)


class RollbackConfig(Type):
    """Which earlier state."""

    revision: int64 = field(1)
