"""Table columns of the storage group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import annotations_of, name_of, value_at
from kapiserver.api.columns import AGE, NAME, NONE, UNSET, Column, Columns, count, flag, text
from kapiserver.api.types import Tree

_DEFAULT = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _class_name(storage_class: Tree) -> str:
    is_default = any(annotations_of(storage_class).get(key) == "true" for key in _DEFAULT)
    return f"{name_of(storage_class)} (default)" if is_default else name_of(storage_class)


def _audiences(driver: Tree) -> str:
    requests = value_at(driver, "spec", "tokenRequests")
    return (
        UNSET
        if requests is None
        else ",".join(request.get("audience") or "" for request in requests)
    )


def _modes(driver: Tree) -> str:
    return ",".join(value_at(driver, "spec", "volumeLifecycleModes") or ()) or NONE


COLUMNS: dict[str, Columns] = {
    "CSIDriver": Columns(
        (
            NAME,
            Column(
                "AttachRequired",
                flag("spec", "attachRequired", unset=True),
                "Whether volumes must be attached before they are mounted.",
                type="boolean",
            ),
            Column(
                "PodInfoOnMount",
                flag("spec", "podInfoOnMount"),
                "Whether the driver receives information about the pod.",
                type="boolean",
            ),
            Column(
                "StorageCapacity",
                flag("spec", "storageCapacity"),
                "Whether the scheduler considers the published capacities.",
                type="boolean",
            ),
            Column(
                "TokenRequests",
                _audiences,
                "Audiences of the service account tokens that the driver receives.",
            ),
            Column(
                "RequiresRepublish",
                flag("spec", "requiresRepublish"),
                "Whether the driver is called again to refresh mounted volumes.",
                type="boolean",
            ),
            Column("Modes", _modes, "Kinds of volumes that the driver supports."),
            AGE,
        )
    ),
    "CSINode": Columns(
        (
            NAME,
            Column(
                "Drivers",
                count("spec", "drivers"),
                "Number of drivers on the node.",
                type="integer",
            ),
            AGE,
        )
    ),
    "StorageClass": Columns(
        (
            Column("Name", _class_name, NAME.description, format="name"),
            Column(
                "Provisioner", text("provisioner"), "Driver that provisions volumes of the class."
            ),
            Column(
                "ReclaimPolicy",
                text("reclaimPolicy", empty="Delete"),
                "What happens to a volume once its claim is deleted.",
            ),
            Column(
                "VolumeBindingMode",
                text("volumeBindingMode", empty="Immediate"),
                "When volumes are provisioned and bound.",
            ),
            Column(
                "AllowVolumeExpansion",
                flag("allowVolumeExpansion"),
                "Whether volumes may be enlarged.",
            ),
            AGE,
        )
    ),
    "VolumeAttachment": Columns(
        (
            NAME,
            Column(
                "Attacher",
                text("spec", "attacher"),
                "Driver that attaches the volume.",
                format="name",
            ),
            Column(
                "PV",
                text("spec", "source", "persistentVolumeName"),
                "Name of the PersistentVolume.",
            ),
            Column("Node", text("spec", "nodeName"), "Node that the volume is attached to."),
            Column(
                "Attached",
                flag("status", "attached"),
                "Whether the volume is attached.",
                type="boolean",
            ),
            AGE,
        )
    ),
    "VolumeAttributesClass": Columns(
        (NAME, Column("DriverName", text("driverName"), "Driver that the attributes are for."), AGE)
    ),
}
