"""How writes of persistent volumes and of claims to them behave."""

from __future__ import annotations

import copy

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
from kapiserver.api.objects import value_at
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
        return list(validate_persistent_volume(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_persistent_volume_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(volume_warnings.persistent_volume(new))


class PersistentVolumeClaimStrategy(SpecStrategy):
    """Begins as Pending; what it is filled from stands in two fields, the old one and the new."""

    generations = False
    empty_status = {"phase": "Pending"}

    def prepare_for_create(self, obj: Tree) -> None:
        super().prepare_for_create(obj)
        _settle_sources(obj.get("spec") or {}, {})

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        _settle_sources(new.get("spec") or {}, old.get("spec") or {})

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_claim(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_claim_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(volume_warnings.persistent_volume_claim(new))


def _is_local(source: Tree) -> bool:
    return (source.get("apiGroup") or "", source.get("kind") or "") in _LOCAL_SOURCES


def _settle_sources(spec: Tree, old_spec: Tree) -> None:
    # Sources in other namespaces are alpha and off.
    foreign = value_at(spec, "dataSourceRef", "namespace")
    if foreign and old_spec.get("dataSourceRef") is None:
        del spec["dataSourceRef"]
    # Old servers dropped what is no claim and no snapshot; the new field takes any.
    given, known = (
        [one.get(name) for name in ("dataSourceRef", "dataSource")] for one in (spec, old_spec)
    )
    ref, source = given
    if known == [None, None] and ref is None and source is not None and not _is_local(source):
        del spec["dataSource"]
    _same_source(spec)


def _same_source(spec: Tree) -> None:
    old, new = spec.get("dataSource"), spec.get("dataSourceRef")
    if old is not None and new is None:
        spec["dataSourceRef"] = copy.deepcopy(old)
    elif new is not None and old is None and not new.get("namespace"):
        spec["dataSource"] = {key: value for key, value in new.items() if key != "namespace"}
    else:
        return
    reorder_keys(spec, v1.PersistentVolumeClaimSpec)


_PERSISTENT_VOLUME = PersistentVolumeStrategy()
_PERSISTENT_VOLUME_CLAIM = PersistentVolumeClaimStrategy()

STRATEGIES: dict[str, Strategy] = {
    "persistentvolumeclaims": _PERSISTENT_VOLUME_CLAIM,
    "persistentvolumeclaims/status": StatusStrategy(
        _PERSISTENT_VOLUME_CLAIM, off=("healthStatus",), rule=validate_claim_status_update
    ),
    "persistentvolumes": _PERSISTENT_VOLUME,
    "persistentvolumes/status": StatusStrategy(_PERSISTENT_VOLUME),
}
