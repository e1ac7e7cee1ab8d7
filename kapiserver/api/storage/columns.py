"""The tables of the storage group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from datetime import datetime

from kapiserver.api.columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Columns,
    count,
    flag,
    text,
)
from kapiserver.api.objects import annotations_of, name_of, value_at
from kapiserver.api.types import Tree

_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _class_name(found: Tree, _: datetime) -> str:
    default = any(annotations_of(found).get(key) == "true" for key in _DEFAULT)
    return f"{name_of(found)} (default)" if default else name_of(found)


def _audiences(driver: Tree, _: datetime) -> str:
    requests = value_at(driver, "spec", "tokenRequests")
    return UNSET if requests is None else ",".join(one.get("audience") or "" for one in requests)


def _modes(driver: Tree, _: datetime) -> str:
    return ",".join(value_at(driver, "spec", "volumeLifecycleModes") or ()) or NONE


COLUMNS: dict[str, Columns] = {
    "CSIDriver": Columns(
        (
            NAME,
            Column(
                "AttachRequired",
                flag("spec", "attachRequired", unset=True),
                "Whether volumes are attached before they are mounted.",
                type="boolean",
            ),
            Column(
                "PodInfoOnMount",
                flag("spec", "podInfoOnMount"),
                "Whether the driver is told about the pod.",
                type="boolean",
            ),
            Column(
                "StorageCapacity",
                flag("spec", "storageCapacity"),
                "Whether the scheduler looks at capacities.",
                type="boolean",
            ),
            Column("TokenRequests", _audiences, "Audiences of the tokens it wants."),
            Column(
                "RequiresRepublish",
                flag("spec", "requiresRepublish"),
                "Whether volumes are published again and again.",
                type="boolean",
            ),
            Column("Modes", _modes, "Lives of volumes it supports."),
            AGE,
        )
    ),
    "CSINode": Columns(
        (NAME, Column("Drivers", count("spec", "drivers"), "How many.", type="integer"), AGE)
    ),
    "CSIStorageCapacity": Columns(
        (
            NAME,
            Column("StorageClassName", text("storageClassName"), "The sort of storage."),
            Column("Capacity", text("capacity", empty=UNSET), "How much there is."),
        )
    ),
    "StorageClass": Columns(
        (
            Column("Name", _class_name, NAME.description, format="name"),
            Column("Provisioner", text("provisioner"), "Who makes the volumes."),
            Column(
                "ReclaimPolicy",
                text("reclaimPolicy", empty="Delete"),
                "What becomes of a volume when its claim goes.",
            ),
            Column(
                "VolumeBindingMode",
                text("volumeBindingMode", empty="Immediate"),
                "Whether volumes wait for their first pod.",
            ),
            Column("AllowVolumeExpansion", flag("allowVolumeExpansion"), "Whether volumes grow."),
            AGE,
        )
    ),
    "VolumeAttachment": Columns(
        (
            NAME,
            Column("Attacher", text("spec", "attacher"), "The driver.", format="name"),
            Column("PV", text("spec", "source", "persistentVolumeName"), "The volume."),
            Column("Node", text("spec", "nodeName"), "The node."),
            Column("Attached", flag("status", "attached"), "Whether it is.", type="boolean"),
            AGE,
        )
    ),
    "VolumeAttributesClass": Columns(
        (NAME, Column("DriverName", text("driverName"), "The driver."), AGE)
    ),
}
