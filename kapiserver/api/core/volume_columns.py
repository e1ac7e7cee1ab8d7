"""Table columns of persistent volumes and claims.

Mirrors printPersistentVolume and printPersistentVolumeClaim of pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Collection

from kapiserver.api.accessors import annotations_of, is_terminating, value_at
from kapiserver.api.columns import AGE, NAME, UNSET, Column, Columns, text
from kapiserver.api.core.validation.persistent_volume_claims import CLASS_ANNOTATION
from kapiserver.api.types import Tree

_SHORT_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(modes: Collection[str] | None) -> str:
    """Return the short names of access modes in a fixed order."""
    return ",".join(short for mode, short in _SHORT_MODES.items() if mode in (modes or ()))


def _phase(obj: Tree) -> str:
    return "Terminating" if is_terminating(obj) else value_at(obj, "status", "phase") or ""


def _class(obj: Tree) -> str:
    annotation = annotations_of(obj).get(CLASS_ANNOTATION)
    return value_at(obj, "spec", "storageClassName") or "" if annotation is None else annotation


def _claim_of(volume: Tree) -> str:
    claim_ref = value_at(volume, "spec", "claimRef")
    return (
        ""
        if claim_ref is None
        else f"{claim_ref.get('namespace') or ''}/{claim_ref.get('name') or ''}"
    )


def _size(volume: Tree) -> str:
    return value_at(volume, "spec", "capacity", "storage") or "0"


def _volume_modes(volume: Tree) -> str:
    return access_modes(value_at(volume, "spec", "accessModes"))


def _is_bound(claim: Tree) -> bool:
    return bool(value_at(claim, "spec", "volumeName"))


def _claim_capacity(claim: Tree) -> str:
    return value_at(claim, "status", "capacity", "storage") or "0" if _is_bound(claim) else ""


def _claim_modes(claim: Tree) -> str:
    return access_modes(value_at(claim, "status", "accessModes")) if _is_bound(claim) else ""


_CLASS = Column("StorageClass", _class, "Storage class of the volume.")
_ATTRIBUTES = Column(
    "VolumeAttributesClass",
    text("spec", "volumeAttributesClassName", empty=UNSET),
    "Class of the volume's changeable attributes.",
)
_MODE = Column(
    "VolumeMode",
    text("spec", "volumeMode", empty=UNSET),
    "Mode of the volume: Filesystem or Block.",
    priority=1,
)
_STATUS = Column("Status", _phase, "Phase, such as Pending, Available, Bound or Lost.")

VOLUME_COLUMNS = Columns(
    (
        NAME,
        Column("Capacity", _size, "Capacity of the volume."),
        Column("Access Modes", _volume_modes, "Access modes of the volume."),
        Column(
            "Reclaim Policy",
            text("spec", "persistentVolumeReclaimPolicy"),
            "What happens to the volume once its claim is deleted.",
        ),
        _STATUS,
        Column("Claim", _claim_of, "Claim that the volume is bound to."),
        _CLASS,
        _ATTRIBUTES,
        Column("Reason", text("status", "reason"), "Reason for the volume's status."),
        AGE,
        _MODE,
    )
)
CLAIM_COLUMNS = Columns(
    (
        NAME,
        _STATUS,
        Column("Volume", text("spec", "volumeName"), "Volume that the claim is bound to."),
        Column("Capacity", _claim_capacity, "Capacity of the bound volume."),
        Column("Access Modes", _claim_modes, "Access modes of the bound volume."),
        _CLASS,
        _ATTRIBUTES,
        AGE,
        _MODE,
    )
)
