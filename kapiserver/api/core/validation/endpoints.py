"""Validation of endpoints."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import addresses, names
from kapiserver.api.core.validation.common import PROTOCOLS, validate_enum, validate_format
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.types import Tree


def validate_endpoints(obj: Tree) -> Iterator[FieldError]:
    """Validate new or updated endpoints."""
    for index, subset in enumerate(obj.get("subsets") or ()):
        subset_path, ports = Path("subsets")[index], subset.get("ports") or ()
        if not subset.get("addresses") and not subset.get("notReadyAddresses"):
            yield required(subset_path, "must specify `addresses` or `notReadyAddresses`")
        for kind in ("addresses", "notReadyAddresses"):
            for number, address in enumerate(subset.get(kind) or ()):
                yield from _validate_address(address, (subset_path / kind)[number])
        for number, port in enumerate(ports):
            yield from _validate_port(
                port, (subset_path / "ports")[number], name_required=len(ports) > 1
            )


def _validate_address(address: Tree, path: Path) -> Iterator[FieldError]:
    text = address.get("ip") or ""
    yield from validate_format(addresses.ip, text, path / "ip")
    if address.get("hostname"):
        yield from validate_format(names.dns1123_label, address["hostname"], path / "hostname")
    if address.get("nodeName") is not None:
        yield from validate_format(names.dns1123_subdomain, address["nodeName"], path / "nodeName")
    yield from validate_format(addresses.ordinary_ip, text, path / "ip")


def _validate_port(port: Tree, path: Path, *, name_required: bool) -> Iterator[FieldError]:
    name, number = port.get("name") or "", port.get("port") or 0
    if name:
        yield from validate_format(names.dns1123_label, name, path / "name")
    elif name_required:
        yield required(path / "name")
    for message in names.port_number(number):
        yield invalid(path / "port", number, message)
    yield from validate_enum(port.get("protocol"), PROTOCOLS, path / "protocol")
    if port.get("appProtocol") is not None:
        yield from validate_format(names.qualified_name, port["appProtocol"], path / "appProtocol")
