"""Endpoints, the elder of discovery's EndpointSlice."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class Endpoints(Kind):
    """The addresses behind a service (deprecated; see EndpointSlice)."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    subsets: list[EndpointSubset] = field(2, doc="Addresses and the ports they have.")


class EndpointSubset(Type):
    """Addresses that share a set of ports."""

    addresses: list[EndpointAddress] = field(1, doc="Addresses that take connections.")
    notReadyAddresses: list[EndpointAddress] = field(
        2, doc="Addresses that do not take connections."
    )
    ports: list[EndpointPort] = field(3, doc="The ports.")


class EndpointAddress(Type):
    """One address."""

    atomic = True

    ip: str = field(1, always=True, required=True, doc="An IP address.")
    hostname: str = field(3, doc="A host name.")
    nodeName: str | None = field(4, doc="The node, by name.")
    targetRef: ObjectReference | None = field(2, doc="The object behind it.")


class EndpointPort(Type):
    """One port."""

    atomic = True

    name: str = field(1, doc="Its name.")
    port: int32 = field(2, always=True, required=True, doc="The number of the port.")
    protocol: str = field(3, enum=("TCP", "UDP", "SCTP"), doc="TCP, UDP or SCTP.")
    appProtocol: str | None = field(4, doc="What is spoken over it, as http.")
