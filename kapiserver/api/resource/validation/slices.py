"""Validation of resource slices, in which drivers publish devices."""

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
    name_of_item,
    validate_items,
    validate_label,
    validate_pool_name,
    validate_qualified_name,
    validate_taint,
)
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_DEVICES_MAX = 128
_COMPLEX_DEVICES_MAX = 64
_PROPERTIES_MAX = 32
_KEY_MAX = 63 + 1 + 32
_VALUES_MAX = 48
_TAINTS_MAX = 16
_COUNTER_SETS_MAX = 8
_CONSUMED_SETS_MAX = 2
_COUNTERS_MAX = 32
_CONDITIONS_MAX = 4
_TEXT_MAX = 64
_NODE_FIELDS = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_LIST_VALUES = ("ints", "bools", "strings", "versions")
_BINDING_FIELDS = ("bindingConditions", "bindingFailureConditions")
_PRE_RELEASE = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_VERSION = re.compile(
    rf"(0|[1-9]\d*)(\.(0|[1-9]\d*)){{2}}(-{_PRE_RELEASE}(\.{_PRE_RELEASE})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
)
_NOT_VERSION = "must be a string compatible with semver.org spec 2.0.0"
_EMPTY = "must not be empty if specified"


def validate_resource_slice(obj: Tree) -> Iterator[FieldError]:
    """Validate a new slice."""
    return validate_resource_slice_update(obj, {})


def validate_resource_slice_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated slice. Driver, pool name and node name are immutable."""
    spec, old_spec = new.get("spec") or {}, old.get("spec")
    yield from validate_driver_name(spec.get("driver") or "", _SPEC / "driver")
    yield from _validate_pool(spec.get("pool") or {}, _SPEC / "pool")
    for field_keys in (
        (("pool", "name"), ("driver",), ("nodeName",)) if old_spec is not None else ()
    ):
        field_path = Path(".".join(("spec", *field_keys)))
        value, old_value = value_at(spec, *field_keys), value_at(old_spec or {}, *field_keys)
        yield from immutable(value, old_value, field_path)
    yield from _validate_nodes(
        spec, _NODE_FIELDS, _SPEC, empty_message="must be either unset or set to a non-empty string"
    )
    node_fields = _names_of_set_fields(spec, _NODE_FIELDS)
    field_list = ", ".join(f"`{name}`" for name in _NODE_FIELDS)
    if not node_fields:
        yield required(_SPEC, f"exactly one of {field_list} is required")
    elif len(node_fields) > 1:
        detail = f"exactly one of {field_list} is required, but multiple fields are set"
        yield invalid(_SPEC, f"{{{', '.join(node_fields)}}}", detail)
    if spec.get("sharedCounters") is not None and spec.get("devices") is not None:
        yield invalid(_SPEC, "", "only one of `sharedCounters` or `devices` is allowed")
    yield from _validate_devices(spec, old_spec or {})
    counters, field_path = spec.get("sharedCounters"), _SPEC / "sharedCounters"
    yield from validate_items(
        counters, _COUNTER_SETS_MAX, _validate_counter_set, field_path, key=name_of_item
    )


def _validate_pool(pool: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_pool_name(pool.get("name") or "", path / "name")
    count, generation = pool.get("resourceSliceCount") or 0, pool.get("generation") or 0
    if count <= 0:
        yield invalid(path / "resourceSliceCount", count, "must be greater than zero")
    if generation < 0:
        yield invalid(path / "generation", generation, "must be greater than or equal to zero")


def _names_of_set_fields(obj: Tree, fields: tuple[str, ...]) -> list[str]:
    unset: tuple[object, ...] = (None, "", False)
    return [f"`{name}`" for name in fields if obj.get(name) not in unset]


def _validate_nodes(
    obj: Tree, fields: tuple[str, ...], path: Path, *, empty_message: str
) -> Iterator[FieldError]:
    name, selector = obj.get("nodeName"), obj.get("nodeSelector")
    if name == "":
        yield invalid(path / "nodeName", name, empty_message)
    elif name is not None:
        yield from validate_format(names.dns1123_subdomain, name, path / "nodeName")
    if selector is not None:
        yield from validate_node_selector(selector, path / "nodeSelector")
        terms = selector.get("nodeSelectorTerms")
        if path == _SPEC and len(terms or ()) != 1:
            terms_path = path / "nodeSelector" / "nodeSelectorTerms"
            yield invalid(terms_path, terms, "must have exactly one node selector term")
    for field in fields[2:]:
        if obj.get(field) is False:
            yield invalid(path / field, False, "must be either unset or set to true")


def _validate_devices(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    devices, devices_path = spec.get("devices") or (), _SPEC / "devices"
    maximum = _COMPLEX_DEVICES_MAX if any(map(_is_complex, devices)) else _DEVICES_MAX
    if len(devices) > maximum:
        yield too_many(devices_path, len(devices), maximum)
        return
    per_device = bool(spec.get("perDeviceNodeSelection"))
    old_devices: dict[str, Tree] = {}
    for device in old_spec.get("devices") or ():
        old_devices.setdefault(name_of_item(device), device)
    for index, device in enumerate(devices):
        yield from _validate_device(
            device, old_devices.get(name_of_item(device)), devices_path[index]
        )
        yield from _validate_device_nodes(device, devices_path[index], per_device=per_device)
        yield from validate_binding_conditions(device, devices_path[index])
    yield from _validate_unique([name_of_item(device) for device in devices], devices_path)


def _is_complex(device: Tree) -> bool:
    # Features of a device that make its allocation expensive.
    if device.get("taints") or device.get("consumesCounters"):
        return True
    attributes = (device.get("attributes") or {}).values()
    return any(attribute.get(name) is not None for attribute in attributes for name in _LIST_VALUES)


def _validate_unique(values: list[str], path: Path) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, value in enumerate(values):
        if value in seen:
            yield duplicate(path[index], value)
        seen.add(value)


def _validate_device(device: Tree, old_device: Tree | None, path: Path) -> Iterator[FieldError]:
    yield from validate_label(device, "name", path)
    attributes, capacity = device.get("attributes") or {}, device.get("capacity") or {}
    count = len(attributes) + len(capacity)
    if count > _PROPERTIES_MAX:
        detail = f"the total number of attributes and capacities must not exceed {_PROPERTIES_MAX}"
        yield invalid(path, count, detail)
    count = sum(
        sum(len(attribute.get(name) or ()) for name in _LIST_VALUES) or 1
        for attribute in attributes.values()
    )
    if count > _VALUES_MAX:
        detail = f"the total number of attribute values must not exceed {_VALUES_MAX}"
        yield invalid(path, count, detail)
    field_path = path / "attributes"
    for name, value in attributes.items():
        yield from validate_qualified_name(name, field_path)
        yield from _validate_attribute(value, field_path[_shorten_key(name)])
    if old_device is None or device.get("capacity") != old_device.get("capacity"):
        yield from _validate_capacities(device, path / "capacity")
    if old_device is None or device.get("taints") != old_device.get("taints"):
        yield from validate_items(
            device.get("taints"), _TAINTS_MAX, validate_taint, path / "taints"
        )
    counters, field_path = device.get("consumesCounters"), path / "consumesCounters"
    yield from validate_items(
        counters,
        _CONSUMED_SETS_MAX,
        _validate_consumption,
        field_path,
        key=lambda consumption: consumption.get("counterSet") or "",
    )


def _shorten_key(key: str) -> str:
    # Paths show long keys without their middle.
    if len(key) <= _KEY_MAX:
        return key
    length = _KEY_MAX - 3
    return f"{key[: (length + 1) // 2]}...{key[len(key) - length // 2 :]}"


def _validate_capacities(device: Tree, path: Path) -> Iterator[FieldError]:
    for name, value in (device.get("capacity") or {}).items():
        yield from validate_qualified_name(name, path)
        policy = value.get("requestPolicy")
        request_policy_path = path[_shorten_key(name)] / "requestPolicy"
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
        yield from _validate_text(value["string"], path / "string")
    if value.get("version") is not None:
        yield from _validate_version(value["version"], path / "version")
    rules: tuple[tuple[str, Callable[[str, Path], Iterator[FieldError]]], ...] = (
        ("strings", _validate_text),
        ("versions", _validate_version),
    )
    for name in _LIST_VALUES:
        if value.get(name) == []:
            yield invalid(path / name, [], _EMPTY)
    for name, rule in rules:
        for index, item in enumerate(value.get(name) or ()):
            yield from rule(item, (path / name)[index])


def _validate_text(value: str, path: Path) -> Iterator[FieldError]:
    if names.byte_length(value) > _TEXT_MAX:
        yield too_long(path, _TEXT_MAX)


def _validate_version(version: str, path: Path) -> Iterator[FieldError]:
    if not _VERSION.fullmatch(version):
        yield invalid(path, version, _NOT_VERSION)
    yield from _validate_text(version, path)


def _validate_device_nodes(device: Tree, path: Path, *, per_device: bool) -> Iterator[FieldError]:
    fields = _NODE_FIELDS[:3]
    if not per_device:
        if any(device.get(name) is not None for name in fields):
            detail = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if "
                "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
            )
            yield invalid(path, None, detail)
        return
    yield from _validate_nodes(device, fields, path, empty_message="must not be empty")
    node_fields = _names_of_set_fields(device, fields)
    detail = (
        "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when "
        "`perDeviceNodeSelection` is set to true in the ResourceSlice spec"
    )
    if not node_fields:
        yield required(path, detail)
    elif len(node_fields) > 1:
        yield invalid(path, f"{{{', '.join(node_fields)}}}", detail)


def _validate_counter_set(counters: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_counters(counters, path)


def _validate_consumption(consumption: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_counters(consumption, path)


def _validate_counters(obj: Tree, path: Path) -> Iterator[FieldError]:
    counters, counters_path = obj.get("counters") or {}, path / "counters"
    if len(counters) > _COUNTERS_MAX:
        yield too_many(counters_path, len(counters), _COUNTERS_MAX)


def validate_binding_conditions(obj: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the conditions that report whether a device is ready for a claim, or has failed."""
    for field_name in _BINDING_FIELDS:
        yield from validate_items(
            obj.get(field_name), _CONDITIONS_MAX, _validate_condition, path / field_name
        )
    ready, failed = (obj.get(field_name) for field_name in _BINDING_FIELDS)
    failed_path = path / _BINDING_FIELDS[1]
    yield from _validate_unique(ready or [], path / _BINDING_FIELDS[0])
    yield from _validate_unique(failed or [], failed_path)
    for index, condition in enumerate(failed or ()):
        if condition in (ready or ()):
            detail = "bindingFailureConditions must not overlap with bindingConditions"
            yield invalid(failed_path[index], condition, detail)
    if failed and not ready:
        detail = "bindingConditions are required to use bindingFailureConditions"
        yield invalid(path / _BINDING_FIELDS[0], ready, detail)
    if ready and not failed:
        detail = "bindingFailureConditions are required to use bindingConditions"
        yield invalid(failed_path, failed, detail)


def _validate_condition(condition: str, path: Path) -> Iterator[FieldError]:
    yield from validate_label_key(condition, path)
