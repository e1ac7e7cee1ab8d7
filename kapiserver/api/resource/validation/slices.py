"""Rules for the devices that drivers offer, and for taints put on them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.core.validation.common import checked, in_range
from kapiserver.api.core.validation.conditions import conditions
from kapiserver.api.core.validation.scheduling import node_selector
from kapiserver.api.core.validation.volume_plugins import driver_name
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required, too_long, too_many
from kapiserver.api.metadata import immutable
from kapiserver.api.objects import value_at
from kapiserver.api.resource.validation.common import (
    binding_conditions,
    items,
    label,
    named,
    pool_name,
    qualified_name,
    taint,
)
from kapiserver.api.types import Tree, Value

_SPEC = Path("spec")
_DEVICES_MAX = 128
_DEVICES_WITH_MORE_MAX = 64
_FACTS_MAX = 32
_TAINTS_MAX = 16
_COUNTER_SETS_MAX = 8
_COUNTERS_MAX = 32
_TEXT_MAX = 64
_LIMIT_MAX = 1000
_WHERE = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_VALUES = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_PRE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"(0|[1-9]\d*)(\.(0|[1-9]\d*)){{2}}(-{_PRE}(\.{_PRE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)


def resource_slice(obj: Tree) -> Iterator[FieldError]:
    """A new slice."""
    spec = obj.get("spec") or {}
    yield from driver_name(spec.get("driver") or "", _SPEC / "driver")
    yield from _pool(spec.get("pool") or {}, _SPEC / "pool")
    yield from _nodes(
        spec, _WHERE, _SPEC, empty="must be either unset or set to a non-empty string"
    )
    given = [f"`{name}`" for name in _WHERE if spec.get(name)]
    listed = ", ".join(f"`{name}`" for name in _WHERE)
    if not given:
        yield required(_SPEC, f"exactly one of {listed} is required")
    elif len(given) > 1:
        detail = f"exactly one of {listed} is required, but multiple fields are set"
        yield invalid(_SPEC, f"{{{', '.join(given)}}}", detail)
    if spec.get("sharedCounters") and spec.get("devices"):
        yield invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed")
    yield from _devices(spec)
    counters, at = spec.get("sharedCounters"), _SPEC / "sharedCounters"
    yield from items(counters, _COUNTER_SETS_MAX, _counter_set, at, key=named)


def changed_resource_slice(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A slice that is to be changed: it stays with its driver, pool and node."""
    yield from resource_slice(new)
    for path in (("pool", "name"), ("driver",), ("nodeName",)):
        at = Path(".".join(("spec", *path)))
        yield from immutable(value_at(new, "spec", *path), value_at(old, "spec", *path), at)


def _pool(pool: Tree, path: Path) -> Iterator[FieldError]:
    yield from pool_name(pool.get("name") or "", path / "name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        yield invalid(path / "resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        yield invalid(path / "generation", generation, "must be greater than or equal to zero")


def _nodes(
    holder: Tree, fields: tuple[str, ...], path: Path, *, empty: str
) -> Iterator[FieldError]:
    name, selector = holder.get("nodeName"), holder.get("nodeSelector")
    if name == "":
        yield invalid(path / "nodeName", name, empty)
    elif name is not None:
        yield from checked(names.dns1123_subdomain, name, path / "nodeName")
    if selector is not None:
        yield from node_selector(selector, path / "nodeSelector")
        terms = selector.get("nodeSelectorTerms") or []
        if path == _SPEC and len(terms) != 1:
            at = path / "nodeSelector" / "nodeSelectorTerms"
            yield invalid(at, terms, "must have exactly one node selector term")
    for field in fields[2:]:
        if holder.get(field) is False:
            yield invalid(path / field, False, "must be either unset or set to true")


def _devices(spec: Tree) -> Iterator[FieldError]:
    devices, at = spec.get("devices") or (), _SPEC / "devices"
    more = any(one.get("taints") or one.get("consumesCounters") for one in devices)
    each = bool(spec.get("perDeviceNodeSelection"))

    def device(one: Tree, where: Path) -> Iterator[FieldError]:
        yield from _device(one, where)
        yield from _device_nodes(one, where, each=each)
        yield from binding_conditions(one, where)

    most = _DEVICES_WITH_MORE_MAX if more else _DEVICES_MAX
    yield from items(devices, most, device, at, key=named)


def _device(device: Tree, path: Path) -> Iterator[FieldError]:
    yield from label(device, "name", path)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > _FACTS_MAX:
        detail = f"the total number of attributes and capacities must not exceed {_FACTS_MAX}"
        yield invalid(path, count, detail)
    for name, value in attributes.items():
        at = (path / "attributes")[name]
        yield from qualified_name(name, at)
        yield from _attribute(value, at)
    for name, value in capacity.items():
        at = (path / "capacity")[name]
        yield from qualified_name(name, at)
        if value.get("requestPolicy") and not device.get("allowMultipleAllocations"):
            yield forbidden(at / "requestPolicy", "allowMultipleAllocations must be true")
    yield from items(device.get("taints"), _TAINTS_MAX, taint, path / "taints")
    consumed, at = device.get("consumesCounters"), path / "consumesCounters"
    yield from items(
        consumed, _COUNTER_SETS_MAX, _consumption, at, key=lambda one: one.get("counterSet") or ""
    )


def _attribute(value: Tree, path: Path) -> Iterator[FieldError]:
    given = [name for name in _VALUES if value.get(name) is not None]
    text, version = value.get("string"), value.get("version")
    if text is not None and len(text) > _TEXT_MAX:
        yield too_long(path / "string", _TEXT_MAX)
    if version is not None:
        yield from _version(version, path / "version")
    if len(given) != 1:
        shown: Value = value if given else ""
        yield invalid(path, shown, "exactly one value must be specified")


def _version(version: str, path: Path) -> Iterator[FieldError]:
    if len(version) > _TEXT_MAX:
        yield too_long(path, _TEXT_MAX)
    elif not _VERSION.fullmatch(version):
        yield invalid(path, version, "must be a string compatible with semver.org spec 2.0.0")


def _device_nodes(device: Tree, path: Path, *, each: bool) -> Iterator[FieldError]:
    fields = _WHERE[:3]
    if not each:
        if any(device.get(name) is not None for name in fields):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            )
            yield invalid(path, None, detail)
        return
    yield from _nodes(device, fields, path, empty="must not be empty")
    given = [f"`{name}`" for name in fields if device.get(name)]
    detail = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
        "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    )
    if not given:
        yield required(path, detail)
    elif len(given) > 1:
        yield invalid(path, f"{{{', '.join(given)}}}", detail)


def _counter_set(counters: Tree, path: Path) -> Iterator[FieldError]:
    yield from label(counters, "name", path)
    yield from _counters(counters, path)


def _consumption(consumption: Tree, path: Path) -> Iterator[FieldError]:
    yield from label(consumption, "counterSet", path)
    yield from _counters(consumption, path)


def _counters(holder: Tree, path: Path) -> Iterator[FieldError]:
    counters, at = holder.get("counters") or {}, path / "counters"
    if not counters:
        yield required(at)
    if len(counters) > _COUNTERS_MAX:
        yield too_many(at, len(counters), _COUNTERS_MAX)
    for name in counters:
        yield from checked(names.dns1123_label, name, at[name])


def taint_rule(obj: Tree) -> Iterator[FieldError]:
    """A rule that puts a taint on devices, new or changed."""
    spec = obj.get("spec") or {}
    selector, at = spec.get("deviceSelector") or {}, _SPEC / "deviceSelector"
    if selector.get("driver") is not None:
        yield from driver_name(selector["driver"], at / "driver")
    if selector.get("pool") is not None:
        yield from pool_name(selector["pool"], at / "pool")
    if selector.get("device") is not None:
        yield from label(selector, "device", at)
    yield from taint(spec.get("taint") or {}, _SPEC / "taint")


def changed_conditions(new: Tree, _: Tree) -> Iterator[FieldError]:
    """What is known of a rule or a request."""
    yield from conditions(value_at(new, "status", "conditions"), Path("status") / "conditions")


def status_request(obj: Tree) -> Iterator[FieldError]:
    """Asks how much of a driver's pools is taken."""
    spec = obj.get("spec") or {}
    yield from driver_name(spec.get("driver") or "", _SPEC / "driver")
    if spec.get("poolName") is not None:
        yield from pool_name(spec["poolName"], _SPEC / "poolName")
    yield from in_range(spec.get("limit"), 1, _LIMIT_MAX, _SPEC / "limit")
