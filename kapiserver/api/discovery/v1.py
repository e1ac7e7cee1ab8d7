"""discovery.k8s.io/v1: the endpoints of services, in slices."""

from __future__ import annotations

from kapiserver.api.core.v1 import ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class Endpoint(Type):
    """One backend of a service, with its addresses."""

    addresses: list[str] = field(
        1,
        always=True,
        required=True,
        set=True,
        doc=(
            "Addresses of the backend, of the slice's addressType, 1 to 100. Clients use the "
            "first one; all must be equivalent."
        ),
    )
    conditions: EndpointConditions = field(
        2, doc="Whether the backend is ready, serves and is terminating."
    )
    hostname: str | None = field(
        3,
        doc=(
            "Host name of the backend, a DNS label. It becomes a DNS name below that of a "
            "headless service."
        ),
    )
    targetRef: ObjectReference | None = field(
        4, doc="The object behind the address, usually a pod."
    )
    deprecatedTopology: dict[str, str] = field(
        5,
        doc=(
            "Topology labels of the endpoint, kept from v1beta1 and not writable; use nodeName "
            "and zone."
        ),
    )
    nodeName: str | None = field(
        6,
        doc=(
            "Name of the node that the endpoint is on, so that consumers on the same node can "
            "prefer it."
        ),
    )
    zone: str | None = field(7, doc="Name of the zone that the endpoint is in.")
    hints: EndpointHints | None = field(
        8, doc="Zones and nodes whose consumers should use the endpoint, to keep traffic close."
    )


class EndpointConditions(Type):
    """The state of an endpoint; an absent field means unknown."""

    ready: bool | None = field(
        1,
        doc=(
            "Whether the endpoint should get new connections: it serves and is not terminating. "
            "Consumers treat unknown as true."
        ),
    )
    serving: bool | None = field(
        2,
        doc=(
            "Whether the endpoint answers requests, even while it terminates. If it is absent, "
            "ready applies."
        ),
    )
    terminating: bool | None = field(
        3, doc="Whether the endpoint is terminating. Consumers treat unknown as false."
    )


class EndpointHints(Type):
    """Zones and nodes whose consumers should use an endpoint."""

    forZones: list[ForZone] = field(
        1, doc="Zones whose consumers should use the endpoint, at most 8."
    )
    forNodes: list[ForNode] = field(
        2,
        doc=(
            "Nodes whose consumers should use the endpoint, at most 8. Preferred over forZones "
            "where both are used."
        ),
    )


class EndpointPort(Type):
    """A port that all endpoints of a slice serve."""

    atomic = True

    name: str | None = field(
        1,
        doc=(
            "Name of the port: a DNS label or empty, unique in the slice. It is that of the "
            "service's port. Defaults to an empty name."
        ),
    )
    protocol: str | None = field(
        2,
        enum=("TCP", "UDP", "SCTP"),
        doc="Transport protocol of the port: TCP (the default), UDP or SCTP.",
    )
    port: int32 | None = field(
        3,
        doc=(
            "Number of the port. If it is absent, consumers decide on its meaning, for example "
            "all ports."
        ),
    )
    appProtocol: str | None = field(
        4,
        doc=(
            "Application protocol of the port: an IANA service name such as http, or a name with "
            "a domain such as kubernetes.io/h2c."
        ),
    )


class EndpointSlice(Kind):
    """Some of the endpoints of a service. The endpoints of all its slices belong to the service."""

    metadata: ObjectMeta = field(
        1,
        doc="Standard object's metadata. The label kubernetes.io/service-name names the service.",
    )
    addressType: str = field(
        4,
        always=True,
        required=True,
        enum=("IPv4", "IPv6", "FQDN"),
        doc=(
            "Type of all addresses in the slice: IPv4, IPv6 or FQDN (deprecated). It cannot be "
            "changed."
        ),
    )
    endpoints: list[Endpoint] = field(
        2, always=True, doc="The endpoints of the slice, at most 1000."
    )
    ports: list[EndpointPort] = field(
        3,
        always=True,
        doc=(
            "The ports that each endpoint serves, at most 20000. If the list is empty, the slice "
            "has no ports."
        ),
    )


class ForNode(Type):
    """A node whose consumers should use an endpoint."""

    name: str = field(
        1, always=True, required=True, doc="Name of the node, unique among the hints."
    )


class ForZone(Type):
    """A zone whose consumers should use an endpoint."""

    name: str = field(
        1, always=True, required=True, doc="Name of the zone, unique among the hints."
    )
