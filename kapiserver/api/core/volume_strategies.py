"""How writes of persistent volumes and of claims to them behave."""

from __future__ import annotations

import copy

from kapiserver.api.core import v1, volume_warnings
from kapiserver.api.core.validation.claims import changed_claim, changed_claim_status, claim
from kapiserver.api.core.validation.persistent_volumes import (
    changed_persistent_volume,
    persistent_volume,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.objects import value_at
from kapiserver.api.order import settle
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree

_LOCAL_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))


class PersistentVolumeStrategy(SpecStrategy):
    """Begins as Pending, since the moment it was made."""

    generations = False

    def prepare_for_create(self, obj: Tree) -> None:
        obj["status"] = {"phase": "Pending"}
        made = value_at(obj, "metadata", "creationTimestamp")
        if made:
            obj["status"]["lastPhaseTransitionTime"] = made

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(persistent_volume(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_persistent_volume(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(volume_warnings.persistent_volume(new))


class PersistentVolumeClaimStrategy(SpecStrategy):
    """Begins as Pending; what it is filled from stands in two fields, the old one and the new."""

    generations = False
    empty_status = {"phase": "Pending"}

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        spec = obj.get("spec") or {}
        _drop_foreign_source(spec)
        source = spec.get("dataSource")
        if source is not None and not _is_local(source):
            del spec["dataSource"]  # old servers dropped it; the new field takes any
        _same_source(spec)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        spec = new.get("spec") or {}
        if value_at(old, "spec", "dataSourceRef") is None:
            _drop_foreign_source(spec)
        _same_source(spec)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(claim(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(changed_claim(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(volume_warnings.persistent_volume_claim(new))


def _is_local(source: Tree) -> bool:
    return (source.get("apiGroup") or "", source.get("kind") or "") in _LOCAL_SOURCES


def _drop_foreign_source(spec: Tree) -> None:
    # Sources in other namespaces are alpha and off.
    if value_at(spec, "dataSourceRef", "namespace") is not None:
        del spec["dataSourceRef"]


def _same_source(spec: Tree) -> None:
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is None:
        spec["dataSourceRef"] = copy.deepcopy(old)
    elif new is not None and old is None and not new.get("namespace"):
        spec["dataSource"] = {key: value for key, value in new.items() if key != "namespace"}
    else:
        return
    settle(spec, v1.PersistentVolumeClaimSpec)


_PERSISTENT_VOLUME = PersistentVolumeStrategy()
_PERSISTENT_VOLUME_CLAIM = PersistentVolumeClaimStrategy()

STRATEGIES: dict[str, Strategy] = {
    "persistentvolumeclaims": _PERSISTENT_VOLUME_CLAIM,
    "persistentvolumeclaims/status": StatusStrategy(
        _PERSISTENT_VOLUME_CLAIM, rule=changed_claim_status
    ),
    "persistentvolumes": _PERSISTENT_VOLUME,
    "persistentvolumes/status": StatusStrategy(_PERSISTENT_VOLUME),
}
