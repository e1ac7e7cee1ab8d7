"""apps/v1beta1: the types of v1beta2, but for the differences below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.apps import v1beta2
from kapiserver.api.core.v1 import PodTemplateSpec
from kapiserver.api.meta.v1 import LabelSelector
from kapiserver.api.types import Kind, Type, field, inherit_types, int32, int64, override_field

if TYPE_CHECKING:
    from kapiserver.api.apps.v1beta2 import DeploymentStrategy

inherit_types(
    __name__,
    v1beta2,
    without=(
        "DaemonSet",
        "DaemonSetCondition",
        "DaemonSetSpec",
        "DaemonSetStatus",
        "DaemonSetUpdateStrategy",
        "ReplicaSet",
        "ReplicaSetCondition",
        "ReplicaSetSpec",
        "ReplicaSetStatus",
        "RollingUpdateDaemonSet",
    ),
)


class DeploymentRollback(Kind):
    """Asks for an earlier state of a deployment."""

    listed = False

    name: str = field(1, always=True, required=True)
    updatedAnnotations: dict[str, str] = field(2)
    rollbackTo: RollbackConfig = field(3)


class DeploymentSpec(Type):
    """How many pods, made from what, and how they are replaced."""

    replicas: int32 | None = field(1, doc="How many pods there should be.")
    selector: LabelSelector | None = field(2, doc="Labels of the deployment's pods.")
    template: PodTemplateSpec = field(3, required=True, doc="What the pods look like.")
    strategy: DeploymentStrategy = field(
        4, patch="retainKeys", doc="How old pods give way to new ones."
    )
    minReadySeconds: int32 = field(5)
    revisionHistoryLimit: int32 | None = field(6)
    paused: bool = field(7, doc="No rollout while true.")
    rollbackTo: RollbackConfig | None = field(8)
    progressDeadlineSeconds: int32 | None = field(9)


class RollbackConfig(Type):
    """Which earlier state."""

    revision: int64 = field(1)


class ScaleStatus(v1beta2.ScaleStatus):
    selector = override_field(atomic=None)


class StatefulSetSpec(v1beta2.StatefulSetSpec):
    selector = override_field(always=False)


class StatefulSetStatus(v1beta2.StatefulSetStatus):
    observedGeneration: int64 | None = field(1)  # type: ignore[assignment]
