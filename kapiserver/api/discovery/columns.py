"""Table columns of the discovery group. Mirrors pkg/printers/internalversion of Kubernetes."""

from __future__ import annotations

from itertools import chain

from kapiserver.api.columns import AGE, NAME, UNSET, Column, Columns, join_first, text
from kapiserver.api.types import Tree


def _ports(endpoint_slice: Tree) -> str:
    ports = endpoint_slice.get("ports") or ()
    return join_first(_port(port) for port in ports) if ports else UNSET


def _port(port: Tree) -> str:
    if port.get("port") is not None:
        return str(port["port"])
    return port.get("name") or "*"


def _endpoints(endpoint_slice: Tree) -> str:
    endpoints = endpoint_slice.get("endpoints") or ()
    if not endpoints:
        return UNSET
    return join_first(
        chain.from_iterable(endpoint.get("addresses") or () for endpoint in endpoints)
    )


COLUMNS: dict[str, Columns] = {
    "EndpointSlice": Columns(
        (
            NAME,
            Column(
                "AddressType", text("addressType"), "Type of the addresses: IPv4, IPv6 or FQDN."
            ),
            Column("Ports", _ports, "Ports of the endpoints."),
            Column("Endpoints", _endpoints, "Addresses of the endpoints."),
            AGE,
        )
    ),
}
