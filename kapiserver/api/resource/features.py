"""Fields of devices whose features 1.37 has off: writes lose them, unless the object had them.

Mirrors the dropDisabledFields of pkg/registry/resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree

Holders = Callable[[Tree], Iterator[Tree]]
"""The parts of an object that can have a field."""
_LISTS = ("ints", "bools", "strings", "versions")


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


_SLICE: tuple[tuple[Holders, tuple[str, ...]], ...] = (
    (_spec, ("partitionTypeAttribute",)),  # DRAPartitionableDevicesType
    (_spec, ("skipNodeOperations",)),  # DRAOptionalNodeOperations
    (_devices, ("nodeAllocatableResources",)),  # DRANodeAllocatableResources
    (_attributes, _LISTS),  # DRAListTypeAttributes
    (_consumptions, ("compatibilityGroups",)),  # DRADeviceCompatibilityGroups
)
_CLAIM: tuple[tuple[Holders, tuple[str, ...]], ...] = (
    (_requests("spec"), ("derivedAttributes",)),  # DRADerivedAttributes
    (_results, ("skipNodeOperations",)),
)
_TEMPLATE: tuple[tuple[Holders, tuple[str, ...]], ...] = (
    (_requests("spec", "spec"), ("derivedAttributes",)),
)


def drop_of_slice(new: Tree, old: Tree | None) -> None:
    """What a slice cannot have."""
    _drop(_SLICE, new, old)


def drop_of_claim(new: Tree, old: Tree | None) -> None:
    """What a claim cannot have."""
    _drop(_CLAIM, new, old)


def drop_of_template(new: Tree, old: Tree | None) -> None:
    """What a template of claims cannot have."""
    _drop(_TEMPLATE, new, old)


def _drop(
    features: tuple[tuple[Holders, tuple[str, ...]], ...], new: Tree, old: Tree | None
) -> None:
    for holders, names in features:
        if old is not None and any(name in one for one in holders(old) for name in names):
            continue
        for one in holders(new):
            for name in names:
                one.pop(name, None)
