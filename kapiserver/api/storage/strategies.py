"""How writes of the storage group behave."""

from __future__ import annotations

from kapiserver.api.core.warnings import OLD_NODE_LABELS
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.objects import metadata_of
from kapiserver.api.storage.validation import (
    attachment,
    attributes_class,
    changed_attachment,
    changed_attributes_class,
    changed_csi_driver,
    changed_csi_node,
    changed_storage_capacity,
    changed_storage_class,
    csi_driver,
    csi_node,
    storage_capacity,
    storage_class,
)
from kapiserver.api.strategy import STATUS_METADATA, SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class StorageClassStrategy(Strategy):
    """What volumes are made of does not change."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(storage_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_storage_class(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        found = []
        for index, term in enumerate(new.get("allowedTopologies") or ()):
            at = Path("allowedTopologies")[index] / "matchLabelExpressions"
            for position, one in enumerate(term.get("matchLabelExpressions") or ()):
                words = OLD_NODE_LABELS.get(one.get("key") or "")
                if words:
                    found.append(f"{at[position] / 'key'}: {words}")
        return found


class VolumeAttributesClassStrategy(Strategy):
    """Only its metadata changes."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(attributes_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_attributes_class(new, old))


class VolumeAttachmentStrategy(SpecStrategy):
    """What is attached where does not change; whether it is, the driver says."""

    allow_unconditional_update = False
    generations = False
    empty_status = {"attached": False}

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(attachment(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_attachment(new, old))


class CSINodeStrategy(SpecStrategy):
    """The kubelet's list of a node's drivers."""

    allow_unconditional_update = False
    generations = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(csi_node(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_csi_node(new, old))


class CSIDriverStrategy(Strategy):
    """Without a status, and yet its spec has generations."""

    allow_unconditional_update = False

    def prepare_for_create(self, obj: Tree) -> None:
        metadata_of(obj)["generation"] = 1

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        if new.get("spec") != old.get("spec"):
            metadata_of(new)["generation"] = (metadata_of(old).get("generation") or 0) + 1

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(csi_driver(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_csi_driver(new, old))


class CSIStorageCapacityStrategy(Strategy):
    """What a driver measured."""

    allow_unconditional_update = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(storage_capacity(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_storage_capacity(new, old))


_ATTACHMENT = VolumeAttachmentStrategy()
_CSI_NODE = CSINodeStrategy()

STRATEGIES: dict[str, Strategy] = {
    "csidrivers": CSIDriverStrategy(),
    "csinodes": _CSI_NODE,
    "csinodes/status": StatusStrategy(_CSI_NODE, keeps_metadata=STATUS_METADATA),
    "csistoragecapacities": CSIStorageCapacityStrategy(),
    "storageclasses": StorageClassStrategy(),
    "volumeattachments": _ATTACHMENT,
    "volumeattachments/status": StatusStrategy(
        _ATTACHMENT, keeps_metadata=STATUS_METADATA, rule=changed_attachment
    ),
    "volumeattributesclasses": VolumeAttributesClassStrategy(),
}
