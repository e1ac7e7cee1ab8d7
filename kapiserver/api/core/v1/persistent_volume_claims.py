"""PersistentVolumeClaim: a request for storage, and the volume that it is bound to."""

from __future__ import annotations

from kapiserver.api.core.v1.pod_status import VolumeHealthStatus
from kapiserver.api.core.v1.references import TypedLocalObjectReference, TypedObjectReference
from kapiserver.api.meta.v1 import LabelSelector, ObjectMeta
from kapiserver.api.scalar_types import Quantity, Time
from kapiserver.api.types import Kind, Type, field


class PersistentVolumeClaim(Kind):
    """A request for storage in a namespace, which binds to a PersistentVolume."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. Pods refer to the claim by its name, so it must be in "
            "the namespace of the pods."
        ),
    )
    spec: PersistentVolumeClaimSpec = field(
        2, doc="Desired state of the claim: the size, access modes and class of the storage."
    )
    status: PersistentVolumeClaimStatus = field(
        3,
        doc=(
            "Observed state of the claim: its phase, its size and the progress of changes. "
            "Controllers set it."
        ),
    )


class PersistentVolumeClaimSpec(Type):
    """The storage that a claim requests. Little of it may change later."""

    accessModes: list[str] = field(
        1,
        enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        doc=(
            "Modes that the volume must support: ReadWriteOnce, ReadOnlyMany, ReadWriteMany or, "
            "alone, ReadWriteOncePod. At least one."
        ),
    )
    selector: LabelSelector | None = field(
        4,
        doc=(
            "Labels of the volumes that may be bound. When absent, labels do not matter. "
            "Provisioners do not serve claims with a selector."
        ),
    )
    resources: VolumeResourceRequirements = field(
        2,
        doc=(
            "Size of the storage: requests.storage is required. It may grow later if the storage "
            "class allows expansion."
        ),
    )
    volumeName: str = field(
        3,
        doc=(
            "PersistentVolume that the claim is bound to. Set it to reserve a certain volume; "
            "otherwise the binder sets it."
        ),
    )
    storageClassName: str | None = field(
        5,
        doc=(
            'StorageClass of the volume. When absent: the default class. When empty (""): only '
            "volumes without a class, so nothing is provisioned."
        ),
    )
    volumeMode: str | None = field(
        6,
        enum=("Block", "Filesystem"),
        doc=(
            "How containers see the volume: as a directory (Filesystem) or as a raw device "
            "(Block). Default: Filesystem. It cannot change."
        ),
    )
    dataSource: TypedLocalObjectReference | None = field(
        7,
        doc=(
            "Content of the new volume: a PersistentVolumeClaim to clone or a VolumeSnapshot, "
            "both in this namespace. Copied to dataSourceRef, which accepts more."
        ),
    )
    dataSourceRef: TypedObjectReference | None = field(
        8,
        doc=(
            "Object that fills the new volume: a claim, a snapshot, or any kind that a volume "
            "populator serves. An entry with a namespace is dropped: that feature is alpha."
        ),
    )
    volumeAttributesClassName: str | None = field(
        9,
        doc=(
            "VolumeAttributesClass that sets parameters of the volume, for example its "
            "throughput. It may change once the claim is bound. When absent: no class."
        ),
    )


class PersistentVolumeClaimStatus(Type):
    """Observed state of a claim."""

    phase: str = field(
        1,
        enum=("Pending", "Bound", "Lost"),
        doc=(
            "Pending (no volume yet), Bound (to a volume) or Lost (its volume no longer exists, "
            "and the data with it)."
        ),
    )
    accessModes: list[str] = field(
        2,
        enum=("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"),
        doc="Access modes of the volume that the claim is bound to.",
    )
    capacity: dict[str, Quantity] = field(
        3, doc="Actual size of the volume under the key storage. It may exceed the request."
    )
    conditions: list[PersistentVolumeClaimCondition] = field(
        4,
        keys=("type",),
        merge="type",
        doc=(
            "Conditions of the claim, one entry per type, for example Resizing or "
            "FileSystemResizePending."
        ),
    )
    allocatedResources: dict[str, Quantity] = field(
        5,
        doc=(
            "Size that an expansion has reserved under the key storage. Quotas count the larger "
            "of this and the request."
        ),
    )
    allocatedResourceStatuses: dict[str, str] = field(
        7,
        enum=(
            "ControllerResizeInProgress",
            "ControllerResizeInfeasible",
            "NodeResizePending",
            "NodeResizeInProgress",
            "NodeResizeInfeasible",
        ),
        doc=(
            "State of the expansion per resource: ControllerResizeInProgress, "
            "ControllerResizeInfeasible, NodeResizePending, NodeResizeInProgress or "
            "NodeResizeInfeasible. When absent: none is in progress."
        ),
    )
    currentVolumeAttributesClassName: str | None = field(
        8,
        doc=(
            "VolumeAttributesClass whose parameters the volume has now. When absent: none was "
            "applied."
        ),
    )
    modifyVolumeStatus: ModifyVolumeStatus | None = field(
        9,
        doc=(
            "Progress of a change to another VolumeAttributesClass. When absent: no change is "
            "attempted."
        ),
    )
    healthStatus: VolumeHealthStatus | None = field(
        10,
        doc=(
            "Health of the claim's volume, as its CSI driver reports it. Alpha: the server drops "
            "this field."
        ),
    )


class PersistentVolumeClaimCondition(Type):
    """One aspect of a claim's state, mostly of a resize or modification."""

    type: str = field(
        1,
        always=True,
        doc=(
            "Aspect of the claim that the condition describes, for example Resizing, "
            "FileSystemResizePending, ModifyingVolume or ModifyVolumeError."
        ),
        required=True,
    )
    status: str = field(
        2,
        always=True,
        doc="Whether the claim condition holds: True, False or Unknown.",
        required=True,
    )
    lastProbeTime: Time = field(3, doc="When the condition of the claim was last probed.")
    lastTransitionTime: Time = field(4, doc="When the status of the claim condition last changed.")
    reason: str = field(
        5,
        doc=(
            "CamelCase code of the claim condition's last change. During a resize it names the "
            "operation."
        ),
    )
    message: str = field(6, doc="Human-readable explanation of the claim condition's last change.")


class PersistentVolumeClaimTemplate(Type):
    """A template from which the claim of an ephemeral volume is created."""

    metadata: ObjectMeta = field(
        1, doc="Labels and annotations for the claim. Other fields of the metadata are rejected."
    )
    spec: PersistentVolumeClaimSpec = field(
        2,
        doc="Spec of the claim, copied as it is. The same rules apply as for a claim itself.",
        required=True,
    )


class ModifyVolumeStatus(Type):
    """Progress of a change to another VolumeAttributesClass."""

    targetVolumeAttributesClassName: str = field(
        1, doc="VolumeAttributesClass that the volume is being changed to."
    )
    status: str = field(
        2,
        always=True,
        enum=("Pending", "InProgress", "Infeasible"),
        required=True,
        doc=(
            "Pending (the class cannot be used yet), InProgress or Infeasible (the driver "
            "rejected the class; choose another)."
        ),
    )


class VolumeResourceRequirements(Type):
    """Minimum and maximum size of a claim's volume."""

    limits: dict[str, Quantity] = field(
        1, doc="Maximum size of the volume under the key storage. When absent: no maximum."
    )
    requests: dict[str, Quantity] = field(
        2,
        doc=(
            "Minimum size of the volume under the key storage, for example 10Gi. A claim must "
            "have it. It may grow, never below the size that the volume has."
        ),
    )
