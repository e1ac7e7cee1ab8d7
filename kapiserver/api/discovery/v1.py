"""discovery.k8s.io/v1: the addresses behind services, in slices."""

from __future__ import annotations

from kapiserver.api.core.v1 import ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class Endpoint(Type):
    """One or more addresses of the same backend."""

    addresses: list[str] = field(
        1, always=True, required=True, set=True, doc="Addresses of the slice's type."
    )
    conditions: EndpointConditions = field(2, doc="Whether it is in use.")
    hostname: str | None = field(3, doc="A host name.")
    targetRef: ObjectReference | None = field(4, doc="The object behind it.")
    deprecatedTopology: dict[str, str] = field(5, doc="Not used any more.")
    nodeName: str | None = field(6, doc="The node it is on.")
    zone: str | None = field(7, doc="The zone it is in.")
    hints: EndpointHints | None = field(8, doc="For whom it is best.")


class EndpointConditions(Type):
    """Whether an endpoint is in use."""

    ready: bool | None = field(1, doc="Whether it takes new connections.")
    serving: bool | None = field(2, doc="Whether it answers, ending or not.")
    terminating: bool | None = field(3, doc="Whether it is ending.")


class EndpointHints(Type):
    """Who best uses an endpoint."""

    forZones: list[ForZone] = field(1, doc="Zones for which it is.")
    forNodes: list[ForNode] = field(2, doc="Nodes for which it is.")


class EndpointPort(Type):
    """One port of all endpoints of a slice."""

    atomic = True

    name: str | None = field(1, doc="Its name.")
    protocol: str | None = field(2, enum=("TCP", "UDP", "SCTP"), doc="TCP, UDP or SCTP.")
    port: int32 | None = field(3, doc="The number of the port.")
    appProtocol: str | None = field(4, doc="What is spoken over it, as http.")


class EndpointSlice(Kind):
    """Some of the addresses behind a service."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    addressType: str = field(
        4, always=True, required=True, enum=("IPv4", "IPv6", "FQDN"), doc="IPv4, IPv6 or FQDN."
    )
    endpoints: list[Endpoint] = field(2, always=True, doc="The addresses.")
    ports: list[EndpointPort] = field(3, always=True, doc="The ports of them all.")


class ForNode(Type):
    """A node that best uses an endpoint."""

    name: str = field(1, always=True, required=True, doc="The node, by name.")


class ForZone(Type):
    """A zone that best uses an endpoint."""

    name: str = field(1, always=True, required=True, doc="The zone, by name.")
