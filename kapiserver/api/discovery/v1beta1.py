"""discovery.k8s.io/v1beta1: the types of v1, but for the differences below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kapiserver.api.core.v1 import ObjectReference
from kapiserver.api.discovery import v1
from kapiserver.api.types import Type, field, inherit_types, override_field

if TYPE_CHECKING:
    from kapiserver.api.discovery.v1 import EndpointConditions, EndpointHints

inherit_types(__name__, v1)


class Endpoint(Type):
    """One backend of a service, with its addresses and topology."""

    addresses: list[str] = field(
        1,
        always=True,
        required=True,
        set=True,
        doc="Addresses of the backend, of the slice's addressType, 1 to 100; all must be "
        "equivalent.",
    )
    conditions: EndpointConditions = field(
        2, doc="Whether the backend is ready, serves requests and is terminating."
    )
    hostname: str | None = field(
        3, doc="Host name of the backend, a DNS label, for the DNS names of a headless service."
    )
    targetRef: ObjectReference | None = field(
        4, doc="The object that the address belongs to, usually a pod."
    )
    topology: dict[str, str] = field(
        5, doc="Topology labels of the endpoint, such as topology.kubernetes.io/zone, at most 16."
    )
    nodeName: str | None = field(
        6, doc="Name of the endpoint's node, so that consumers on it can prefer the endpoint."
    )
    hints: EndpointHints | None = field(
        7, doc="Zones and nodes whose consumers should use the endpoint."
    )


class EndpointPort(v1.EndpointPort):
    atomic = False


class ForNode(v1.ForNode):
    name = override_field(required=False)


class ForZone(v1.ForZone):
    name = override_field(required=False)
