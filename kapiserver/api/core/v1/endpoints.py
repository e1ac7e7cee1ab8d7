"""Endpoints, the elder of discovery's EndpointSlice."""

from __future__ import annotations

from kapiserver.api.core.v1.references import ObjectReference
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class Endpoints(Kind):
    """The addresses behind a service (deprecated; see EndpointSlice)."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    subsets: list[EndpointSubset] = field(2)


class EndpointSubset(Type):
    """Addresses that share a set of ports."""

    addresses: list[EndpointAddress] = field(1)
    notReadyAddresses: list[EndpointAddress] = field(2)
    ports: list[EndpointPort] = field(3)


class EndpointAddress(Type):
    """One address."""

    atomic = True

    ip: str = field(1, always=True, required=True)
    hostname: str = field(3)
    nodeName: str | None = field(4)
    targetRef: ObjectReference | None = field(2)


class EndpointPort(Type):
    """One port."""

    atomic = True

    name: str = field(1)
    port: int32 = field(2, always=True, required=True)
    protocol: str = field(3, enum=("TCP", "UDP", "SCTP"))
    appProtocol: str | None = field(4)
