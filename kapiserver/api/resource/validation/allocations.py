"""Validation of the status of resource claims: allocation, consumers, device statuses."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.addresses import address_of
from kapiserver.api.core.validation.common import validate_enum, validate_required
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.core.validation.scheduling import validate_node_selector
from kapiserver.api.core.validation.volume_plugins import validate_driver_name
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, too_many
from kapiserver.api.resource.validation.claims import (
    request_names,
    validate_request_reference,
    validate_request_references,
)
from kapiserver.api.resource.validation.common import (
    PARAMETERS_MAX,
    REQUESTS_MAX,
    validate_items,
    validate_label,
    validate_opaque_config,
    validate_pool_name,
    validate_raw_object,
    validate_tolerations,
)
from kapiserver.api.resource.validation.slices import validate_binding_conditions
from kapiserver.api.types import Tree

_STATUS = Path("status")
_CONSUMERS_MAX = 256
_CONDITIONS_MAX = 8
_ADDRESSES_MAX = 16
_SOURCES = ("FromClaim", "FromClass")
_NO_ADDRESS = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
_DEVICE_VALUE: Tree = {"Driver": {}, "Pool": {}, "Device": {}, "ShareID": {}}
"""The value of a device in messages. kube-apiserver prints names in a form without JSON values."""


def validate_claim_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated claim status. An allocation is validated when it is set."""
    status, old_status = new.get("status") or {}, old.get("status") or {}
    reserved_for_path, consumers = _STATUS / "reservedFor", status.get("reservedFor") or []
    yield from validate_items(
        consumers,
        _CONSUMERS_MAX,
        _validate_consumer,
        reserved_for_path,
        key=lambda consumer: consumer.get("uid"),
    )
    allocation, old_allocation = status.get("allocation"), old_status.get("allocation")
    allocated_devices = {
        device_id(result) for result in value_at(status, "allocation", "devices", "results") or ()
    }

    def validate_device_status(device_status: Tree, path: Path) -> Iterator[FieldError]:
        return _validate_device_status(device_status, allocated_devices, path)

    device_statuses = status.get("devices") or []
    yield from validate_items(
        device_statuses,
        len(device_statuses),
        validate_device_status,
        _STATUS / "devices",
        key=device_id,
    )
    if consumers and allocation is None:
        yield forbidden(reserved_for_path, "may not be specified when `allocated` is not set")
    elif is_terminating(new):
        old_consumers = old_status.get("reservedFor") or []
        if any(consumer not in old_consumers for consumer in consumers):
            detail = (
                "new entries may not be added while `deallocationRequested` or "
                "`deletionTimestamp` are set"
            )
            yield forbidden(reserved_for_path, detail)
    if allocation is not None and old_allocation is None:
        known_names = request_names(value_at(new, "spec", "devices") or {})
        yield from _validate_allocation(allocation, known_names, _STATUS / "allocation")


def device_id(result: Tree) -> tuple[str, ...]:
    """Return the key of an allocated device or of a share of it, which is unique in the cluster."""
    return tuple(result.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _validate_consumer(consumer: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("resource", "name", "uid"):
        yield from validate_required(consumer, name, path)


def _validate_device_status(
    device_status: Tree, allocated_devices: set[tuple[str, ...]], path: Path
) -> Iterator[FieldError]:
    yield from validate_driver_name(device_status.get("driver") or "", path / "driver")
    yield from validate_pool_name(device_status.get("pool") or "", path / "pool")
    yield from validate_label(device_status, "device", path)
    if device_id(device_status) not in allocated_devices:
        yield invalid(path, _DEVICE_VALUE, "must be an allocated device in the claim")
    conditions, conditions_path = device_status.get("conditions") or (), path / "conditions"
    if len(conditions) > _CONDITIONS_MAX:
        yield too_many(conditions_path, len(conditions), _CONDITIONS_MAX)
    yield from validate_conditions(conditions, conditions_path)
    if "data" in device_status:
        yield from validate_raw_object(device_status["data"], PARAMETERS_MAX, path / "data")
    yield from _validate_network(device_status.get("networkData") or {}, path / "networkData")


def _validate_network(data: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_items(
        data.get("ips"), _ADDRESSES_MAX, _validate_interface, path / "ips", key=str
    )


def _validate_interface(text: str, path: Path) -> Iterator[FieldError]:
    address, slash, length_text = text.rpartition("/")
    parsed = address_of(address)
    is_length = slash and length_text.isascii() and length_text.isdigit() and len(length_text) <= 3
    if parsed is None or not is_length or int(length_text) > parsed.max_prefixlen:
        yield invalid(path, text, _NO_ADDRESS)
        return
    mapped = getattr(parsed, "ipv4_mapped", None)
    length = int(length_text)
    if mapped is not None and length >= 96:
        parsed, length = mapped, length - 96
    if text != f"{parsed}/{length}":
        yield invalid(path, text, f'must be in canonical form ("{parsed}/{length}")')


def _validate_allocation(
    allocation: Tree, known_names: set[str], path: Path
) -> Iterator[FieldError]:
    def validate_result(result: Tree, path: Path) -> Iterator[FieldError]:
        request = result.get("request") or ""
        yield from validate_request_reference(request, known_names, path / "request")
        yield from validate_label(result, "device", path)
        yield from validate_binding_conditions(result, path)
        yield from validate_tolerations(result.get("tolerations"), path / "tolerations")

    def validate_config(config: Tree, path: Path) -> Iterator[FieldError]:
        yield from validate_enum(config.get("source"), _SOURCES, path / "source")
        yield from validate_request_references(config, known_names, path)
        yield from validate_opaque_config(config, path)

    devices, devices_path = allocation.get("devices") or {}, path / "devices"
    yield from validate_items(
        devices.get("results"), REQUESTS_MAX, validate_result, devices_path / "results"
    )
    yield from validate_items(
        devices.get("config"), 2 * REQUESTS_MAX, validate_config, devices_path / "config"
    )
    if allocation.get("nodeSelector") is not None:
        yield from validate_node_selector(allocation["nodeSelector"], path / "nodeSelector")
