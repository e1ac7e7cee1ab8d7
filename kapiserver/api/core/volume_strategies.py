"""Strategies of persistent volumes and persistent volume claims."""

from __future__ import annotations

import copy

from kapiserver.api.accessors import value_at
from kapiserver.api.core import v1, volume_warnings
from kapiserver.api.core.validation.persistent_volume_claims import (
    validate_claim,
    validate_claim_status_update,
    validate_claim_update,
)
from kapiserver.api.core.validation.persistent_volumes import (
    validate_persistent_volume,
    validate_persistent_volume_update,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree

_SUPPORTED_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


class PersistentVolumeStrategy(SpecStrategy):
    """The strategy of persistent volumes. A new volume is Pending from its creation on."""

    tracks_generation = False

    def prepare_for_create(self, obj: Tree) -> None:
        obj["status"] = {"phase": "Pending"}
        creation_time = value_at(obj, "metadata", "creationTimestamp")
        if creation_time:
            obj["status"]["lastPhaseTransitionTime"] = creation_time

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_persistent_volume(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_persistent_volume_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(volume_warnings.warnings_for_persistent_volume(new))


class PersistentVolumeClaimStrategy(SpecStrategy):
    """The strategy of claims. A new claim has the phase Pending, and `dataSource` agrees with
    `dataSourceRef`."""

    tracks_generation = False
    empty_status = {"phase": "Pending"}

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        _normalize_data_sources(obj.get("spec") or {}, {})

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        _normalize_data_sources(new.get("spec") or {}, old.get("spec") or {})

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_claim(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_claim_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(volume_warnings.warnings_for_persistent_volume_claim(new))


def _is_supported_source(source: Tree) -> bool:
    return (source.get("apiGroup") or "", source.get("kind") or "") in _SUPPORTED_SOURCES


def _normalize_data_sources(spec: Tree, old_spec: Tree) -> None:
    # Sources in other namespaces are alpha and off.
    foreign = value_at(spec, "dataSourceRef", "namespace")
    if foreign and old_spec.get("dataSourceRef") is None:
        del spec["dataSourceRef"]
    # `dataSource` supports claims and snapshots only; other values are dropped.
    references, old_references = (
        [claim_spec.get(name) for name in ("dataSourceRef", "dataSource")]
        for claim_spec in (spec, old_spec)
    )
    data_source_ref, data_source = references
    if (
        old_references == [None, None]
        and data_source_ref is None
        and data_source is not None
        and not _is_supported_source(data_source)
    ):
        del spec["dataSource"]
    _copy_data_source(spec)


def _copy_data_source(spec: Tree) -> None:
    data_source, data_source_ref = spec.get("dataSource"), spec.get("dataSourceRef")
    if data_source is not None and data_source_ref is None:
        spec["dataSourceRef"] = copy.deepcopy(data_source)
    elif (
        data_source_ref is not None and data_source is None and not data_source_ref.get("namespace")
    ):
        spec["dataSource"] = {
            key: value for key, value in data_source_ref.items() if key != "namespace"
        }
    else:
        return
    reorder_keys(spec, v1.PersistentVolumeClaimSpec)


_PERSISTENT_VOLUME = PersistentVolumeStrategy()
_PERSISTENT_VOLUME_CLAIM = PersistentVolumeClaimStrategy()

STRATEGIES: dict[str, Strategy] = {
    "persistentvolumeclaims": _PERSISTENT_VOLUME_CLAIM,
    "persistentvolumeclaims/status": StatusStrategy(
        _PERSISTENT_VOLUME_CLAIM,
        disabled_fields=("healthStatus",),
        validate_status=validate_claim_status_update,
    ),
    "persistentvolumes": _PERSISTENT_VOLUME,
    "persistentvolumes/status": StatusStrategy(_PERSISTENT_VOLUME),
}
