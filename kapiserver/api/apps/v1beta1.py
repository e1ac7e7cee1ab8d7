"""apps/v1beta1: the types of v1beta2; the differences are below."""

from __future__ import annotations

from kapiserver.api.apps import v1, v1beta2
from kapiserver.api.types import Kind, Type, field, inherit_types, int64, override_field

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


class DeploymentSpec(v1.DeploymentSpec):
    selector = override_field(
        always=False,
        required=False,
        doc=(
            "Labels of the pods that belong to the deployment. If it is absent, the labels of the "
            "template are used."
        ),
    )
    revisionHistoryLimit = override_field(
        doc="Number of old replica sets to keep for rolling back. Defaults to 2."
    )
    rollbackTo: RollbackConfig | None = field(
        8,
        before="progressDeadlineSeconds",
        doc=(
            "The revision to which the controller rolls back; it clears the field when it has "
            "done so. Deprecated."
        ),
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
    )  # type: ignore[assignment] # a pointer here
