"""apps/v1beta2: the types of v1, but for the differences below."""

from __future__ import annotations

from kapiserver.api.apps import v1
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, inherit_types, int32, override_field

inherit_types(__name__, v1)


class DaemonSetStatus(v1.DaemonSetStatus):
    currentNumberScheduled = override_field(required=False)
    numberMisscheduled = override_field(required=False)
    desiredNumberScheduled = override_field(required=False)
    numberReady = override_field(required=False)


class DaemonSetUpdateStrategy(v1.DaemonSetUpdateStrategy):
    type = override_field(enum=())


class DeploymentStrategy(v1.DeploymentStrategy):
    type = override_field(enum=())


class ReplicaSetStatus(v1.ReplicaSetStatus):
    replicas = override_field(required=False)


class Scale(Kind):
    """How many pods of a workload are wanted and how many there are."""

    listed = False

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ScaleSpec = field(2, doc="The desired state.")
    status: ScaleStatus = field(3, doc="The observed state.")


class ScaleSpec(Type):
    """How many pods are wanted."""

    replicas: int32 = field(1, default=0)


class ScaleStatus(Type):
    """How many pods there are, and which."""

    replicas: int32 = field(1, always=True)
    selector: dict[str, str] = field(2, atomic=True)
    targetSelector: str = field(3)


class StatefulSetSpec(v1.StatefulSetSpec):
    volumeClaimTemplates = override_field(named="")
    podManagementPolicy = override_field(enum=())


class StatefulSetStatus(v1.StatefulSetStatus):
    replicas = override_field(required=False)


class StatefulSetUpdateStrategy(v1.StatefulSetUpdateStrategy):
    type = override_field(enum=())
