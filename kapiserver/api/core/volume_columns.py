"""The tables of persistent volumes and claims.

Mirrors printPersistentVolume and printPersistentVolumeClaim of pkg/printers/internalversion.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

from kapiserver.api.columns import AGE, NAME, UNSET, Column, Columns, text
from kapiserver.api.core.validation.claims import CLASS_ANNOTATION
from kapiserver.api.objects import annotations_of, is_terminating, value_at
from kapiserver.api.types import Tree

_MODES = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}


def access_modes(modes: Collection[str] | None) -> str:
    """Access modes by their short names, in a fixed order."""
    return ",".join(short for mode, short in _MODES.items() if mode in (modes or ()))


def _phase(obj: Tree, _: datetime) -> str:
    return "Terminating" if is_terminating(obj) else value_at(obj, "status", "phase") or ""


def _class(obj: Tree, _: datetime) -> str:
    given = annotations_of(obj).get(CLASS_ANNOTATION)
    return value_at(obj, "spec", "storageClassName") or "" if given is None else given


def _claim_of(volume: Tree, _: datetime) -> str:
    found = value_at(volume, "spec", "claimRef")
    return "" if found is None else f"{found.get('namespace') or ''}/{found.get('name') or ''}"


def _size(volume: Tree, _: datetime) -> str:
    return value_at(volume, "spec", "capacity", "storage") or "0"


def _volume_modes(volume: Tree, _: datetime) -> str:
    return access_modes(value_at(volume, "spec", "accessModes"))


def _is_bound(claim: Tree) -> bool:
    return bool(value_at(claim, "spec", "volumeName"))


def _claimed(claim: Tree, _: datetime) -> str:
    return value_at(claim, "status", "capacity", "storage") or "0" if _is_bound(claim) else ""


def _claim_modes(claim: Tree, _: datetime) -> str:
    return access_modes(value_at(claim, "status", "accessModes")) if _is_bound(claim) else ""


_CLASS = Column("StorageClass", _class, "The sort of storage.")
_ATTRIBUTES = Column(
    "VolumeAttributesClass",
    text("spec", "volumeAttributesClassName", empty=UNSET),
    "Attributes that can change while it is in use.",
)
_MODE = Column(
    "VolumeMode",
    text("spec", "volumeMode", empty=UNSET),
    "File system or block device.",
    priority=1,
)
_STATUS = Column("Status", _phase, "How far it has come.")

VOLUME_COLUMNS = Columns(
    (
        NAME,
        Column("Capacity", _size, "Its size."),
        Column("Access Modes", _volume_modes, "How it may be mounted."),
        Column(
            "Reclaim Policy",
            text("spec", "persistentVolumeReclaimPolicy"),
            "What becomes of it when its claim goes.",
        ),
        _STATUS,
        Column("Claim", _claim_of, "The claim it is bound to."),
        _CLASS,
        _ATTRIBUTES,
        Column("Reason", text("status", "reason"), "Why it is in this status."),
        AGE,
        _MODE,
    )
)
CLAIM_COLUMNS = Columns(
    (
        NAME,
        _STATUS,
        Column("Volume", text("spec", "volumeName"), "The volume it is bound to."),
        Column("Capacity", _claimed, "The size it got."),
        Column("Access Modes", _claim_modes, "How it may be mounted."),
        _CLASS,
        _ATTRIBUTES,
        AGE,
        _MODE,
    )
)
