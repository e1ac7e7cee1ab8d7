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
    """One or more addresses of the same backend."""

    addresses: list[str] = field(
        1, always=True, required=True, set=True, doc="Addresses of the slice's type."
    )
    conditions: EndpointConditions = field(2, doc="Whether it is in use.")
    hostname: str | None = field(3)
    targetRef: ObjectReference | None = field(4, doc="The object behind it.")
    topology: dict[str, str] = field(5)
    nodeName: str | None = field(6, doc="The node it is on.")
    hints: EndpointHints | None = field(7)


class EndpointPort(v1.EndpointPort):
    atomic = False


class ForNode(v1.ForNode):
    name = override_field(required=False)


class ForZone(v1.ForZone):
    name = override_field(required=False)
