"""apiregistration.k8s.io/v1: servers that answer for whole group-versions."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int32


class APIService(Kind):
    """A server that answers for a group-version."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: APIServiceSpec = field(2, doc="The desired state.")
    status: APIServiceStatus = field(3, doc="The observed state.")


class APIServiceCondition(Type):
    """One finding about a server."""

    type: str = field(1, always=True, doc="What the finding is about.", required=True)
    status: str = field(2, always=True, doc="True, False or Unknown.", required=True)
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class APIServiceSpec(Type):
    """Which group-version, which server, and its place among others."""

    service: ServiceReference | None = field(1, doc="The server; none for this one itself.")
    group: str = field(2, doc="The group.")
    version: str = field(3, doc="The version.")
    insecureSkipTLSVerify: bool = field(4, doc="Whether the server's certificate goes unchecked.")
    caBundle: bytes = field(5, doc="Certificates to check the server's by, as PEM.")
    groupPriorityMinimum: int32 = field(
        7, always=True, doc="The group's place among groups.", required=True
    )
    versionPriority: int32 = field(
        8, always=True, doc="The version's place in its group.", required=True
    )


class APIServiceStatus(Type):
    """What is known of a server."""

    conditions: list[APIServiceCondition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )


class ServiceReference(Type):
    """The service behind which a server is."""

    namespace: str = field(1, doc="Its namespace.")
    name: str = field(2, doc="Its name.")
    port: int32 | None = field(3, doc="The port of the service.")
