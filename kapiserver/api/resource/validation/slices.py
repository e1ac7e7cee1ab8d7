"""Rules for the devices that drivers offer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.core.validation.scheduling import validate_node_selector
from kapiserver.api.core.validation.volume_plugins import validate_driver_name
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    required,
    too_long,
    too_many,
)
from kapiserver.api.label_selectors import validate_label_key
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.resource.validation.capacities import validate_request_policy
from kapiserver.api.resource.validation.common import (
    items,
    named,
    validate_label,
    validate_pool_name,
    validate_qualified_name,
    validate_taint,
)
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_DEVICES_MAX = 128
_DEVICES_WITH_MORE_MAX = 64
_FACTS_MAX = 32
_KEY_MAX = 63 + 1 + 32
_VALUES_MAX = 48
_TAINTS_MAX = 16
_COUNTER_SETS_MAX = 8
_CONSUMED_SETS_MAX = 2
_COUNTERS_MAX = 32
_CONDITIONS_MAX = 4
_TEXT_MAX = 64
_WHERE = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_LISTS = ("ints", "bools", "strings", "versions")
_KINDS = ("bindingConditions", "bindingFailureConditions")
_PRE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"(0|[1-9]\d*)(\.(0|[1-9]\d*)){{2}}(-{_PRE}(\.{_PRE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_NOT_VERSION = "must be a string compatible with semver.org spec 2.0.0"
_EMPTY = "must not be empty if specified"


def validate_resource_slice(obj: Tree) -> Iterator[FieldError]:
    """A new slice."""
    return validate_resource_slice_update(obj, {})


def validate_resource_slice_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A slice that is to be changed: it stays with its driver, pool and node."""
    spec, old_spec = new.get("spec") or {}, old.get("spec")
    yield from validate_driver_name(spec.get("driver") or "", _SPEC / "driver")
    yield from _validate_pool(spec.get("pool") or {}, _SPEC / "pool")
    for path in (("pool", "name"), ("driver",), ("nodeName",)) if old_spec is not None else ():
        at = Path(".".join(("spec", *path)))
        its, kept = value_at(spec, *path), value_at(old_spec or {}, *path)
        yield from immutable(its, kept, at)
    yield from _validate_nodes(
        spec, _WHERE, _SPEC, empty="must be either unset or set to a non-empty string"
    )
    given = _given(spec, _WHERE)
    listed = ", ".join(f"`{name}`" for name in _WHERE)
    if not given:
        yield required(_SPEC, f"exactly one of {listed} is required")
    elif len(given) > 1:
        detail = f"exactly one of {listed} is required, but multiple fields are set"
        yield invalid(_SPEC, f"{{{', '.join(given)}}}", detail)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        yield invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed")
    yield from _validate_devices(spec, old_spec or {})
    counters, at = spec.get("sharedCounters"), _SPEC / "sharedCounters"
    yield from items(counters, _COUNTER_SETS_MAX, _validate_counter_set, at, key=named)


def _validate_pool(pool: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_pool_name(pool.get("name") or "", path / "name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        yield invalid(path / "resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        yield invalid(path / "generation", generation, "must be greater than or equal to zero")


def _given(holder: Tree, fields: tuple[str, ...]) -> list[str]:
    unset: tuple[object, ...] = (None, "", False)
    return [f"`{name}`" for name in fields if holder.get(name) not in unset]


def _validate_nodes(
    holder: Tree, fields: tuple[str, ...], path: Path, *, empty: str
) -> Iterator[FieldError]:
    name, selector = holder.get("nodeName"), holder.get("nodeSelector")
    if name == "":
        yield invalid(path / "nodeName", name, empty)
    elif name is not None:
        yield from validate_format(names.dns1123_subdomain, name, path / "nodeName")
    if selector is not None:
        yield from validate_node_selector(selector, path / "nodeSelector")
        terms = selector.get("nodeSelectorTerms")
        if path == _SPEC and len(terms or ()) != 1:
            terms_path = path / "nodeSelector" / "nodeSelectorTerms"
            yield invalid(terms_path, terms, "must have exactly one node selector term")
    for field in fields[2:]:
        if holder.get(field) is False:
            yield invalid(path / field, False, "must be either unset or set to true")


def _validate_devices(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    devices, devices_path = spec.get("devices") or (), _SPEC / "devices"
    maximum = _DEVICES_WITH_MORE_MAX if any(map(_has_more, devices)) else _DEVICES_MAX
    if len(devices) > maximum:
        yield too_many(devices_path, len(devices), maximum)
        return
    each = bool(spec.get("perDeviceNodeSelection"))
    known: dict[str, Tree] = {}
    for device in old_spec.get("devices") or ():
        known.setdefault(named(device), device)
    for index, device in enumerate(devices):
        yield from _validate_device(device, known.get(named(device)), devices_path[index])
        yield from _validate_device_nodes(device, devices_path[index], each=each)
        yield from validate_binding_conditions(device, devices_path[index])
    yield from _repeated([named(device) for device in devices], devices_path)


def _has_more(device: Tree) -> bool:
    # What makes a device dear to the scheduler.
    if device.get("taints") or device.get("consumesCounters"):
        return True
    facts = (device.get("attributes") or {}).values()
    return any(fact.get(name) is not None for fact in facts for name in _LISTS)


def _repeated(repeated: list[str], path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, one in enumerate(repeated):
        if one in seen:
            yield duplicate(path[index], one)
        seen.add(one)


def _validate_device(device: Tree, old_device: Tree | None, path: Path) -> Iterator[FieldError]:
    yield from validate_label(device, "name", path)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > _FACTS_MAX:
        detail = f"the total number of attributes and capacities must not exceed {_FACTS_MAX}"
        yield invalid(path, count, detail)
    count = sum(
        sum(len(attribute.get(name) or ()) for name in _LISTS) or 1
        for attribute in attributes.values()
    )
    if count > _VALUES_MAX:
        detail = f"the total number of attribute values must not exceed {_VALUES_MAX}"
        yield invalid(path, count, detail)
    field_path = path / "attributes"
    for name, value in attributes.items():
        yield from validate_qualified_name(name, field_path)
        yield from _validate_attribute(value, field_path[_shortened(name)])
    if old_device is None or device.get("capacity") != old_device.get("capacity"):
        yield from _validate_capacities(device, path / "capacity")
    if old_device is None or device.get("taints") != old_device.get("taints"):
        yield from items(device.get("taints"), _TAINTS_MAX, validate_taint, path / "taints")
    consumed, field_path = device.get("consumesCounters"), path / "consumesCounters"
    yield from items(
        consumed,
        _CONSUMED_SETS_MAX,
        _validate_consumption,
        field_path,
        key=lambda one: one.get("counterSet") or "",
    )


def _shortened(key: str) -> str:
    # A key in a path, its middle left out where it is long.
    if len(key) <= _KEY_MAX:
        return key
    left = _KEY_MAX - 3
    return f"{key[: (left + 1) // 2]}...{key[len(key) - left // 2 :]}"


def _validate_capacities(device: Tree, path: Path) -> Iterator[FieldError]:
    for name, value in (device.get("capacity") or {}).items():
        yield from validate_qualified_name(name, path)
        policy = value.get("requestPolicy")
        request_policy_path = path[_shortened(name)] / "requestPolicy"
        if policy is None:
            continue
        if device.get("allowMultipleAllocations"):
            yield from validate_request_policy(
                policy, value.get("value") or "0", request_policy_path
            )
        else:
            yield forbidden(request_policy_path, "allowMultipleAllocations must be true")


def _validate_attribute(value: Tree, path: Path) -> Iterator[FieldError]:
    if value.get("string") is not None:
        yield from _text(value["string"], path / "string")
    if value.get("version") is not None:
        yield from _version(value["version"], path / "version")
    rules: tuple[tuple[str, Callable[[str, Path], Iterator[FieldError]]], ...] = (
        ("strings", _text),
        ("versions", _version),
    )
    for name in _LISTS:
        if value.get(name) == []:
            yield invalid(path / name, [], _EMPTY)
    for name, rule in rules:
        for index, one in enumerate(value.get(name) or ()):
            yield from rule(one, (path / name)[index])


def _text(value: str, path: Path) -> Iterator[FieldError]:
    if names.byte_length(value) > _TEXT_MAX:
        yield too_long(path, _TEXT_MAX)


def _version(version: str, path: Path) -> Iterator[FieldError]:
    if not _VERSION.fullmatch(version):
        yield invalid(path, version, _NOT_VERSION)
    yield from _text(version, path)


def _validate_device_nodes(device: Tree, path: Path, *, each: bool) -> Iterator[FieldError]:
    fields = _WHERE[:3]
    if not each:
        if any(device.get(name) is not None for name in fields):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            )
            yield invalid(path, None, detail)
        return
    yield from _validate_nodes(device, fields, path, empty="must not be empty")
    given = _given(device, fields)
    detail = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
        "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    )
    if not given:
        yield required(path, detail)
    elif len(given) > 1:
        yield invalid(path, f"{{{', '.join(given)}}}", detail)


def _validate_counter_set(counters: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_counters(counters, path)


def _validate_consumption(consumption: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_counters(consumption, path)


def _validate_counters(holder: Tree, path: Path) -> Iterator[FieldError]:
    counters, counters_path = holder.get("counters") or {}, path / "counters"
    if len(counters) > _COUNTERS_MAX:
        yield too_many(counters_path, len(counters), _COUNTERS_MAX)


def validate_binding_conditions(holder: Tree, path: Path) -> Iterator[FieldError]:
    """Conditions that tell when a device is ready for its claim, and when it never will be."""
    for kind in _KINDS:
        yield from items(holder.get(kind), _CONDITIONS_MAX, _validate_condition, path / kind)
    ready, failed = (holder.get(kind) for kind in _KINDS)
    at = path / _KINDS[1]
    yield from _repeated(ready or [], path / _KINDS[0])
    yield from _repeated(failed or [], at)
    for index, condition in enumerate(failed or ()):
        if condition in (ready or ()):
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(at[index], condition, detail)
    if failed and not ready:
        detail = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(path / _KINDS[0], ready, detail)
    if ready and not failed:
        detail = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(at, failed, detail)


def _validate_condition(condition: str, path: Path) -> Iterator[FieldError]:
    yield from validate_label_key(condition, path)
