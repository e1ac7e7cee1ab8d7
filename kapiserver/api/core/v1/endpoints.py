"""Endpoints, the predecessor of EndpointSlice of discovery.k8s.io."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class Endpoints(Kind):
    """Addresses and ports of the pods behind a service. Deprecated: use EndpointSlice."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name is that of the service that the addresses "
            "belong to."
        ),
    )
    subsets: list[EndpointSubset] = field(
        2,
        doc=(
            "Sets of addresses with common ports. The server regroups them, so that each address "
            "and port occurs in one set."
        ),
    )


class EndpointSubset(Type):
    """Addresses that share the same ports: each address combined with each port."""

    addresses: list[EndpointAddress] = field(
        1, doc="Addresses of pods that are ready, which load balancers and clients should use."
    )
    notReadyAddresses: list[EndpointAddress] = field(
        2,
        doc=(
            "Addresses of pods that are not ready yet or not any more. Either list must have an "
            "entry."
        ),
    )
    ports: list[EndpointPort] = field(
        3, doc="Ports of these addresses. Each needs a name when there are several."
    )


class EndpointAddress(Type):
    """One address of an Endpoints object."""

    atomic = True

    ip: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "IP address of the endpoint. Loopback, link-local and multicast addresses are rejected."
        ),
    )
    hostname: str = field(
        3, doc="Host name of the endpoint: a DNS label, for DNS records of a headless service."
    )
    nodeName: str | None = field(4, doc="Node of the endpoint, to find endpoints near a client.")
    targetRef: ObjectReference | None = field(
        2, doc="Object that the endpoint belongs to, usually a Pod."
    )


class EndpointPort(Type):
    """One port of an Endpoints object."""

    atomic = True

    name: str = field(
        1,
        doc=(
            "Name of the endpoint's port: a DNS label, the same as the service port's. Required "
            "when there are several ports."
        ),
    )
    port: int32 = field(
        2, always=True, required=True, doc="Number of the endpoint's port, 1 to 65535."
    )
    protocol: str = field(
        3,
        enum=("TCP", "UDP", "SCTP"),
        doc="Protocol of the endpoint's port: TCP, UDP or SCTP. Default: TCP.",
    )
    appProtocol: str | None = field(
        4,
        doc=(
            "Application protocol of the endpoint's port, as a hint: a standard service name such "
            "as http, or a name with a domain."
        ),
    )
