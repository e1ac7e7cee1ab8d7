"""apps/v1beta2: the types of v1; the differences are below."""

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
    """The scale subresource of a workload: its desired and its observed number of pods."""

    listed = False

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: ScaleSpec = field(2, doc="The desired number of pods.")
    status: ScaleStatus = field(3, doc="The observed number of pods.")


class ScaleSpec(Type):
    """The desired number of pods of a workload."""

    replicas: int32 = field(1, default=0, doc="Number of pods that should run; zero or more.")


class ScaleStatus(Type):
    """The observed number of pods of a workload, and their labels."""

    replicas: int32 = field(
        1, always=True, doc="Number of pods of the workload that were observed."
    )
    selector: dict[str, str] = field(
        2,
        atomic=True,
        doc="Labels of the workload's pods, for a selector that consists of labels only.",
    )
    targetSelector: str = field(
        3,
        doc=(
            "The workload's selector as text, in the form of a label selector in a URL. Set if "
            "selector cannot express it."
        ),
    )


class StatefulSetSpec(v1.StatefulSetSpec):
    volumeClaimTemplates = override_field(item_api_version="")
    podManagementPolicy = override_field(enum=())


class StatefulSetStatus(v1.StatefulSetStatus):
    replicas = override_field(required=False)


class StatefulSetUpdateStrategy(v1.StatefulSetUpdateStrategy):
    type = override_field(enum=())
