"""Strategies of the storage group."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.core.warnings import DEPRECATED_NODE_LABELS
from kapiserver.api.errors import FieldError, Path
from kapiserver.api.storage.declarative_rules import STORAGE_CLASS, VOLUME_ATTACHMENT
from kapiserver.api.storage.validation import (
    validate_attachment,
    validate_attachment_update,
    validate_attributes_class,
    validate_attributes_class_update,
    validate_csi_driver,
    validate_csi_driver_update,
    validate_csi_node,
    validate_csi_node_update,
    validate_storage_capacity,
    validate_storage_capacity_update,
    validate_storage_class,
)
from kapiserver.api.strategy import (
    STATUS_METADATA,
    GenerationStrategy,
    SpecStrategy,
    StatusStrategy,
    Strategy,
)
from kapiserver.api.types import Tree

_TOKENS_IN_ATTRIBUTES = (
    "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
    "prevent possible logging of tokens in volume attributes"
)


class StorageClassStrategy(Strategy):
    """The strategy of storage classes."""

    declarative_rules = STORAGE_CLASS

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_storage_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_storage_class(new))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        messages = []
        for index, term in enumerate(new.get("allowedTopologies") or ()):
            expressions_path = Path("allowedTopologies")[index] / "matchLabelExpressions"
            for position, expression in enumerate(term.get("matchLabelExpressions") or ()):
                deprecation = DEPRECATED_NODE_LABELS.get(expression.get("key") or "")
                if deprecation:
                    messages.append(f"{expressions_path[position] / 'key'}: {deprecation}")
        return messages


class VolumeAttributesClassStrategy(Strategy):
    """The strategy of volume attributes classes."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_attributes_class(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_attributes_class_update(new, old))


class VolumeAttachmentStrategy(SpecStrategy):
    """The strategy of volume attachments, whose spec is immutable."""

    allow_unconditional_update = False
    tracks_generation = False
    empty_status = {"attached": False}
    declarative_rules = VOLUME_ATTACHMENT

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_attachment(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_attachment_update(new, old))


class CSINodeStrategy(SpecStrategy):
    """The strategy of CSI nodes."""

    allow_unconditional_update = False
    tracks_generation = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_csi_node(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_csi_node_update(new, old))


class CSIDriverStrategy(GenerationStrategy):
    """The strategy of CSI drivers, whose first generation is 0."""

    allow_unconditional_update = False

    def prepare_for_create(self, obj: Tree) -> None:
        pass

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_csi_driver(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_csi_driver_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        tokens = value_at(new, "spec", "tokenRequests")
        is_unchanged = old is not None and (value_at(old, "spec", "tokenRequests") or []) == tokens
        is_decided = value_at(new, "spec", "serviceAccountTokenInSecrets") is not None
        return [_TOKENS_IN_ATTRIBUTES] if tokens and not (is_unchanged or is_decided) else []


class CSIStorageCapacityStrategy(Strategy):
    """The strategy of CSI storage capacities."""

    allow_unconditional_update = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_storage_capacity(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_storage_capacity_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        topology, path = new.get("nodeTopology") or {}, Path("nodeTopology")
        messages = []
        for index, requirement in enumerate(topology.get("matchExpressions") or ()):
            key = requirement.get("key") or ""
            if key in DEPRECATED_NODE_LABELS:
                key_path = (path / "matchExpressions")[index] / "key"
                messages.append(f"{key_path}: {key} is {DEPRECATED_NODE_LABELS[key]}")
        for label in sorted(topology.get("matchLabels") or ()):
            if label in DEPRECATED_NODE_LABELS:
                messages.append(f"{path / 'matchLabels' / label}: {DEPRECATED_NODE_LABELS[label]}")
        return messages


_ATTACHMENT = VolumeAttachmentStrategy()
_CSI_NODE = CSINodeStrategy()

STRATEGIES: dict[str, Strategy] = {
    "csidrivers": CSIDriverStrategy(),
    "csinodes": _CSI_NODE,
    "csinodes/status": StatusStrategy(
        _CSI_NODE, preserved_metadata=STATUS_METADATA, disabled_fields=("storageHealth",)
    ),
    "csistoragecapacities": CSIStorageCapacityStrategy(),
    "storageclasses": StorageClassStrategy(),
    "volumeattachments": _ATTACHMENT,
    "volumeattachments/status": StatusStrategy(
        _ATTACHMENT, preserved_metadata=STATUS_METADATA, validate_status=validate_attachment_update
    ),
    "volumeattributesclasses": VolumeAttributesClassStrategy(),
}
