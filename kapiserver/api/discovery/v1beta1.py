"""discovery.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.discovery import v1
from kapiserver.api.types import field, inherit_types, override_field, remove_field

inherit_types(__name__, v1)


class Endpoint(v1.Endpoint):
    topology: dict[str, str] = field(
        5,
        before="nodeName",
        doc="Topology labels of the endpoint, such as topology.kubernetes.io/zone, at most 16.",
    )
    deprecatedTopology = remove_field()
    zone = remove_field()
    hints = override_field(number=7)


class EndpointPort(v1.EndpointPort):
    atomic = False


class ForNode(v1.ForNode):
    name = override_field(required=False)


class ForZone(v1.ForZone):
    name = override_field(required=False)
