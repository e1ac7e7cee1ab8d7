"""Disabled fields of devices: fields of features that are off by default in 1.37. Writes drop them
unless the old object has them.

Mirrors dropDisabledFields of pkg/registry/resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree

Holders = Callable[[Tree], Iterator[Tree]]
"""Yields the parts of an object that can have a field."""
_LIST_VALUES = ("ints", "bools", "strings", "versions")


def _spec(obj: Tree) -> Iterator[Tree]:
    yield obj.get("spec") or {}


def _devices(obj: Tree) -> Iterator[Tree]:
    yield from value_at(obj, "spec", "devices") or ()


def _attributes(obj: Tree) -> Iterator[Tree]:
    for device in _devices(obj):
        yield from (device.get("attributes") or {}).values()


def _consumptions(obj: Tree) -> Iterator[Tree]:
    for device in _devices(obj):
        yield from device.get("consumesCounters") or ()


def _requests(*path: str) -> Holders:
    def holders(obj: Tree) -> Iterator[Tree]:
        for request in value_at(obj, *path, "devices", "requests") or ():
            yield request.get("exactly") or {}
            yield from request.get("firstAvailable") or ()

    return holders


def _results(obj: Tree) -> Iterator[Tree]:
    yield from value_at(obj, "status", "allocation", "devices", "results") or ()


_SLICE_FEATURES: tuple[tuple[Holders, tuple[str, ...]], ...] = (
    (_spec, ("partitionTypeAttribute",)),  # DRAPartitionableDevicesType
    (_spec, ("skipNodeOperations",)),  # DRAOptionalNodeOperations
    (_devices, ("nodeAllocatableResources",)),  # DRANodeAllocatableResources
    (_attributes, _LIST_VALUES),  # DRAListTypeAttributes
    (_consumptions, ("compatibilityGroups",)),  # DRADeviceCompatibilityGroups
)
_CLAIM_FEATURES: tuple[tuple[Holders, tuple[str, ...]], ...] = (
    (_requests("spec"), ("derivedAttributes",)),  # DRADerivedAttributes
    (_results, ("skipNodeOperations",)),
)
_TEMPLATE_FEATURES: tuple[tuple[Holders, tuple[str, ...]], ...] = (
    (_requests("spec", "spec"), ("derivedAttributes",)),
)


def drop_disabled_slice_fields(new: Tree, old: Tree | None) -> None:
    """Drop disabled fields from a resource slice, in place."""
    _drop_disabled_fields(_SLICE_FEATURES, new, old)


def drop_disabled_claim_fields(new: Tree, old: Tree | None) -> None:
    """Drop disabled fields from a resource claim, in place."""
    _drop_disabled_fields(_CLAIM_FEATURES, new, old)


def drop_disabled_template_fields(new: Tree, old: Tree | None) -> None:
    """Drop disabled fields from a resource claim template, in place."""
    _drop_disabled_fields(_TEMPLATE_FEATURES, new, old)


def _drop_disabled_fields(
    features: tuple[tuple[Holders, tuple[str, ...]], ...], new: Tree, old: Tree | None
) -> None:
    for holders, names in features:
        if old is not None and any(name in holder for holder in holders(old) for name in names):
            continue
        for holder in holders(new):
            for name in names:
                holder.pop(name, None)
