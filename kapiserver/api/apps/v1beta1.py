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
    """A request to roll a deployment back; the body of the rollback subresource."""

    listed = False

    name: str = field(1, always=True, required=True, doc="Name of the deployment to roll back.")
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
        3,
        required=True,
        doc="The pods to run. A change starts a rollout. Its restartPolicy must be Always.",
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
        6, doc="How many old replica sets to keep for rolling back. Defaults to 2."
    )
    paused: bool = field(
        7, doc="If true, changes of the template are not rolled out until it is false again."
    )
    rollbackTo: RollbackConfig | None = field(
        8,
        doc="The revision to which the controller rolls back; it clears the field when it has "
        "done so. Deprecated.",
    )
    progressDeadlineSeconds: int32 | None = field(
        9,
        doc="After how many seconds without progress a rollout is reported as failed. It must "
        "exceed minReadySeconds. Defaults to 600.",
    )


class RollbackConfig(Type):
    """The revision to which a deployment is rolled back."""

    revision: int64 = field(
        1, doc="Number of the revision. 0, the default, is the one before the current revision."
    )


class ScaleStatus(v1beta2.ScaleStatus):
    selector = override_field(atomic=None)


class StatefulSetSpec(v1beta2.StatefulSetSpec):
    selector = override_field(always=False)


class StatefulSetStatus(v1beta2.StatefulSetStatus):
    observedGeneration: int64 | None = field(
        1, doc="The metadata.generation that the controller last observed. Absent until then."
    )  # type: ignore[assignment]
