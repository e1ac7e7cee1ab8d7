"""Rules for what claims got, who uses it, and what drivers say of it."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.addresses import address_of
from kapiserver.api.core.validation.common import validate_enum, validate_required
from kapiserver.api.core.validation.conditions import validate_conditions
from kapiserver.api.core.validation.scheduling import validate_node_selector
from kapiserver.api.core.validation.volume_plugins import validate_driver_name
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, too_many
from kapiserver.api.resource.validation.claims import reference, references, request_names
from kapiserver.api.resource.validation.common import (
    REQUESTS_MAX,
    SETTINGS_MAX,
    free_object,
    items,
    settings,
    validate_label,
    validate_pool_name,
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
_OPAQUE: Tree = {"Driver": {}, "Pool": {}, "Device": {}, "ShareID": {}}
"""What a message shows of a device: kube-apiserver keeps names in a form that JSON has no word
for."""


def validate_claim_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What a claim got and who uses it: what it got stays until it is given back."""
    status, old_status = new.get("status") or {}, old.get("status") or {}
    reserved_for_path, consumers = _STATUS / "reservedFor", status.get("reservedFor") or []
    yield from items(
        consumers, _CONSUMERS_MAX, _consumer, reserved_for_path, key=lambda one: one.get("uid")
    )
    allocation, kept = status.get("allocation"), old_status.get("allocation")
    given = {
        device_id(result) for result in value_at(status, "allocation", "devices", "results") or ()
    }

    def reported(reported: Tree, where: Path) -> Iterator[FieldError]:
        return _reported(reported, given, where)

    listed = status.get("devices") or []
    yield from items(listed, len(listed), reported, _STATUS / "devices", key=device_id)
    if consumers and allocation is None:
        yield forbidden(reserved_for_path, "may not be specified when `allocated` is not set")
    elif is_terminating(new):
        users = old_status.get("reservedFor") or []
        if any(consumer not in users for consumer in consumers):
            detail = (
                "new entries may not be added while `deallocationRequested` or "
                "`deletionTimestamp` are set"
            )
            yield forbidden(reserved_for_path, detail)
    if allocation is not None and kept is None:
        known = request_names(value_at(new, "spec", "devices") or {})
        yield from _validate_allocation(allocation, known, _STATUS / "allocation")


def device_id(one: Tree) -> tuple[str, ...]:
    """Which device, or share of one: unique in the cluster."""
    return tuple(one.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


def _consumer(consumer: Tree, path: Path) -> Iterator[FieldError]:
    for name in ("resource", "name", "uid"):
        yield from validate_required(consumer, name, path)


def _reported(reported: Tree, given: set[tuple[str, ...]], path: Path) -> Iterator[FieldError]:
    yield from validate_driver_name(reported.get("driver") or "", path / "driver")
    yield from validate_pool_name(reported.get("pool") or "", path / "pool")
    yield from validate_label(reported, "device", path)
    if device_id(reported) not in given:
        yield invalid(path, _OPAQUE, "must be an allocated device in the claim")
    known, conditions_path = reported.get("conditions") or (), path / "conditions"
    if len(known) > _CONDITIONS_MAX:
        yield too_many(conditions_path, len(known), _CONDITIONS_MAX)
    yield from validate_conditions(known, conditions_path)
    if "data" in reported:
        yield from free_object(reported["data"], SETTINGS_MAX, path / "data")
    yield from _validate_network(reported.get("networkData") or {}, path / "networkData")


def _validate_network(data: Tree, path: Path) -> Iterator[FieldError]:
    yield from items(data.get("ips"), _ADDRESSES_MAX, _validate_interface, path / "ips", key=str)


def _validate_interface(text: str, path: Path) -> Iterator[FieldError]:
    address, slash, bits = text.rpartition("/")
    found = address_of(address)
    is_length = slash and bits.isascii() and bits.isdigit() and len(bits) <= 3
    if found is None or not is_length or int(bits) > found.max_prefixlen:
        yield invalid(path, text, _NO_ADDRESS)
        return
    mapped = getattr(found, "ipv4_mapped", None)
    length = int(bits)
    if mapped is not None and length >= 96:
        found, length = mapped, length - 96
    if text != f"{found}/{length}":
        yield invalid(path, text, f'must be in canonical form ("{found}/{length}")')


def _validate_allocation(allocation: Tree, known: set[str], path: Path) -> Iterator[FieldError]:
    def result(result: Tree, where: Path) -> Iterator[FieldError]:
        yield from reference(result.get("request") or "", known, where / "request")
        yield from validate_label(result, "device", where)
        yield from validate_binding_conditions(result, where)
        yield from validate_tolerations(result.get("tolerations"), where / "tolerations")

    def config(config: Tree, where: Path) -> Iterator[FieldError]:
        yield from validate_enum(config.get("source"), _SOURCES, where / "source")
        yield from references(config, known, where)
        yield from settings(config, where)

    devices, devices_path = allocation.get("devices") or {}, path / "devices"
    yield from items(devices.get("results"), REQUESTS_MAX, result, devices_path / "results")
    yield from items(devices.get("config"), 2 * REQUESTS_MAX, config, devices_path / "config")
    if allocation.get("nodeSelector") is not None:
        yield from validate_node_selector(allocation["nodeSelector"], path / "nodeSelector")
