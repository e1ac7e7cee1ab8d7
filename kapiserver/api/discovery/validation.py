"""Validation of endpoint slices. Mirrors pkg/apis/discovery/validation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import addresses, names
from kapiserver.api.core.validation.common import PROTOCOLS, validate_enum, validate_format
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    invalid,
    not_supported,
    required,
    too_many,
)
from kapiserver.api.label_selectors import validate_labels
from kapiserver.api.metadata_validation import immutable, validate_domain
from kapiserver.api.types import Tree

ADDRESS_TYPES = ("FQDN", "IPv4", "IPv6")
_VERSIONS = {"IPv4": 4, "IPv6": 6}
_ENDPOINTS_MAX = 1000
ADDRESSES_MAX = 100
_PORTS_MAX = 20000
_TOPOLOGY_MAX = 16
_HINTS_MAX = 8


def validate_endpoint_slice(obj: Tree, old_obj: Tree | None = None) -> Iterator[FieldError]:
    """Validate a new or updated slice. Unchanged endpoints are not validated again."""
    address_type, endpoints = obj.get("addressType") or "", obj.get("endpoints") or []
    yield from validate_enum(address_type, ADDRESS_TYPES, Path("addressType"))
    if old_obj is None or endpoints != (old_obj.get("endpoints") or []):
        yield from _validate_endpoints(endpoints, Path("endpoints"), address_type)
    yield from _validate_ports(obj.get("ports") or (), Path("ports"))


def _validate_endpoints(endpoints: Sequence[Tree], path: Path, type_: str) -> Iterator[FieldError]:
    if len(endpoints) > _ENDPOINTS_MAX:
        yield too_many(path, len(endpoints), _ENDPOINTS_MAX)
        return
    for index, endpoint in enumerate(endpoints):
        yield from _validate_endpoint(endpoint, path[index], type_)


def _validate_endpoint(endpoint: Tree, path: Path, type_: str) -> Iterator[FieldError]:
    addresses, addresses_path = endpoint.get("addresses") or (), path / "addresses"
    if not addresses:
        yield required(addresses_path, "must contain at least 1 address")
    elif len(addresses) > ADDRESSES_MAX:
        yield too_many(addresses_path, len(addresses), ADDRESSES_MAX)
    for index, address in enumerate(addresses):
        if type_ == "FQDN":
            yield from validate_domain(address, addresses_path[index])
        elif type_ in _VERSIONS:
            yield from _validate_address(address, addresses_path[index], type_)
    node, topology = endpoint.get("nodeName"), endpoint.get("deprecatedTopology") or {}
    if node is not None:
        yield from validate_format(names.dns1123_subdomain, node, path / "nodeName")
    if len(topology) > _TOPOLOGY_MAX:
        yield too_many(path / "deprecatedTopology", len(topology), _TOPOLOGY_MAX)
    yield from validate_labels(topology, path / "deprecatedTopology")
    if endpoint.get("hostname") is not None:
        yield from validate_format(names.dns1123_label, endpoint["hostname"], path / "hostname")
    for name, check in _HINTS:
        hints = (endpoint.get("hints") or {}).get(name) or ()
        if len(hints) > _HINTS_MAX:
            yield too_many(path / "hints" / name, len(hints), _HINTS_MAX)
            return
        yield from _validate_hints(hints, path / "hints" / name, check)


_HINTS = (("forZones", names.label_value), ("forNodes", names.dns1123_subdomain))


def _validate_address(text: str, path: Path, type_: str) -> Iterator[FieldError]:
    errors = list(validate_format(addresses.ip, text, path))
    yield from errors
    if not errors:
        if addresses.family_of(text) != _VERSIONS[type_]:
            yield invalid(path, text, f"must be an {type_} address")
        yield from validate_format(addresses.ordinary_ip, text, path)


def _validate_hints(hints: Sequence[Tree], path: Path, check: names.Check) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, hint in enumerate(hints):
        name, name_path = hint.get("name") or "", path[index] / "name"
        if name in seen:
            yield duplicate(name_path, name)
        seen.add(name)
        yield from validate_format(check, name, name_path)


def _validate_ports(ports: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    if len(ports) > _PORTS_MAX:
        yield too_many(path, len(ports), _PORTS_MAX)
        return
    seen: set[str] = set()
    for index, port in enumerate(ports):
        port_path, name, protocol = path[index], port.get("name") or "", port.get("protocol")
        if name:
            yield from validate_format(names.dns1123_label, name, port_path / "name")
        if name in seen:
            yield duplicate(port_path / "name", name)
        seen.add(name)
        if protocol is None:
            yield required(port_path / "protocol")
        elif protocol not in PROTOCOLS:
            yield not_supported(port_path / "protocol", protocol, PROTOCOLS)
        if port.get("appProtocol") is not None:
            yield from validate_format(
                names.qualified_name, port["appProtocol"], port_path / "appProtocol"
            )


def validate_endpoint_slice_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated slice. Its address type is immutable."""
    yield from validate_endpoint_slice(new, old)
    address_type, old_address_type = new.get("addressType") or "", old.get("addressType") or ""
    yield from immutable(address_type, old_address_type, Path("addressType"))
