"""PersistentVolumeClaim."""

from __future__ import annotations

from kapiserver.api.core.v1.pod_status import VolumeHealthStatus
from kapiserver.api.core.v1.references import TypedLocalObjectReference, TypedObjectReference
from kapiserver.api.leaves import Quantity, Time
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field


class PersistentVolumeClaim(Kind):
    """A request for storage."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PersistentVolumeClaimSpec = field(2, doc="The desired state.")
    status: PersistentVolumeClaimStatus = field(3, doc="The observed state.")


class PersistentVolumeClaimSpec(Type):
    """What storage is asked for."""

    accessModes: list[str] = field(
        1, enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
    )
    selector: LabelSelector | None = field(4)
    resources: VolumeResourceRequirements = field(2)
    volumeName: str = field(3)
    storageClassName: str | None = field(5)
    volumeMode: str | None = field(6, enum=("Block", "Filesystem"))
    dataSource: TypedLocalObjectReference | None = field(7)
    dataSourceRef: TypedObjectReference | None = field(8)
    volumeAttributesClassName: str | None = field(9)


class PersistentVolumeClaimStatus(Type):
    """What is known of a claim."""

    phase: str = field(1, enum=("Pending", "Bound", "Lost"))
    accessModes: list[str] = field(
        2, enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod")
    )
    capacity: dict[str, Quantity] = field(3)
    conditions: list[PersistentVolumeClaimCondition] = field(4, keys=("type",), merge="type")
    allocatedResources: dict[str, Quantity] = field(5)
    allocatedResourceStatuses: dict[str, str] = field(
        7,
        enum=(
            "ControllerResizeInProgress",
            "ControllerResizeInfeasible",
            "NodeResizePending",
            "NodeResizeInProgress",
            "NodeResizeInfeasible",
        ),
    )
    currentVolumeAttributesClassName: str | None = field(8)
    modifyVolumeStatus: ModifyVolumeStatus | None = field(9)
    healthStatus: VolumeHealthStatus | None = field(10)


class PersistentVolumeClaimCondition(Type):
    """One finding about a claim."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastProbeTime: Time = field(3, doc="When it was last looked at.")
    lastTransitionTime: Time = field(4, doc="When the status last changed.")
    reason: str = field(5, doc="Why, in one word for programs.")
    message: str = field(6, doc="Why, for people.")


class PersistentVolumeClaimTemplate(Type):
    """What the claim of an ephemeral volume looks like."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PersistentVolumeClaimSpec = field(2, doc="The desired state.", required=True)


class ModifyVolumeStatus(Type):
    """How far a change of a volume's attributes has come."""

    targetVolumeAttributesClassName: str = field(1)
    status: str = field(2, always=True, enum=("Pending", "InProgress", "Infeasible"), required=True)


class VolumeResourceRequirements(Type):
    """How much storage is asked for and allowed."""

    limits: dict[str, Quantity] = field(1)
    requests: dict[str, Quantity] = field(2)
