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
        1,
        enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        doc="How it may be mounted.",
    )
    selector: LabelSelector | None = field(4, doc="Which objects, by their labels.")
    resources: VolumeResourceRequirements = field(2, doc="What it needs, and may use.")
    volumeName: str = field(3, doc="The volume it is bound to.")
    storageClassName: str | None = field(5, doc="The storage class, by name.")
    volumeMode: str | None = field(6, enum=("Block", "Filesystem"), doc="Filesystem or Block.")
    dataSource: TypedLocalObjectReference | None = field(
        7, doc="What the volume is filled from, in this namespace."
    )
    dataSourceRef: TypedObjectReference | None = field(8, doc="What the volume is filled from.")
    volumeAttributesClassName: str | None = field(9, doc="The class of its attributes.")


class PersistentVolumeClaimStatus(Type):
    """What is known of a claim."""

    phase: str = field(1, enum=("Pending", "Bound", "Lost"), doc="Pending, Bound or Lost.")
    accessModes: list[str] = field(
        2,
        enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        doc="How it may be mounted.",
    )
    capacity: dict[str, Quantity] = field(3, doc="How much there is.")
    conditions: list[PersistentVolumeClaimCondition] = field(
        4, keys=("type",), merge="type", doc="What was found out about it."
    )
    allocatedResources: dict[str, Quantity] = field(5, doc="What was set aside.")
    allocatedResourceStatuses: dict[str, str] = field(
        7,
        enum=(
            "ControllerResizeInProgress",
            "ControllerResizeInfeasible",
            "NodeResizePending",
            "NodeResizeInProgress",
            "NodeResizeInfeasible",
        ),
        doc="How far resizing has come.",
    )
    currentVolumeAttributesClassName: str | None = field(8, doc="The class it has.")
    modifyVolumeStatus: ModifyVolumeStatus | None = field(
        9, doc="How far changing its class has come."
    )
    healthStatus: VolumeHealthStatus | None = field(10, doc="How the volume is.")


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

    targetVolumeAttributesClassName: str = field(1, doc="The class it shall have.")
    status: str = field(
        2,
        always=True,
        enum=("Pending", "InProgress", "Infeasible"),
        required=True,
        doc="Pending, InProgress or Infeasible.",
    )


class VolumeResourceRequirements(Type):
    """How much storage is asked for and allowed."""

    limits: dict[str, Quantity] = field(1, doc="How much there may be at most.")
    requests: dict[str, Quantity] = field(2, doc="How much is asked for.")
