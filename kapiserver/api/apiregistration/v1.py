"""apiregistration.k8s.io/v1: APIServices, which register the servers of group versions."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int32


class APIService(Kind):
    """Registers the server of one API group version: another server behind a Service, or the API
    server itself."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The name must be spec.version and spec.group joined by a "
            "dot."
        ),
    )
    spec: APIServiceSpec = field(2, doc="The group version, its server and its priorities.")
    status: APIServiceStatus = field(3, doc="Whether the server is available.")


class APIServiceCondition(Type):
    """One aspect of the current state of an APIService."""

    type: str = field(
        1,
        always=True,
        doc="Type of the condition. The only value in use is Available.",
        required=True,
    )
    status: str = field(
        2,
        always=True,
        doc="Whether the condition holds for the APIService: True, False or Unknown.",
        required=True,
    )
    lastTransitionTime: Time = field(3, doc="When the condition's status last changed.")
    reason: str = field(
        4,
        doc=(
            "A machine-readable CamelCase reason for the last transition, such as "
            "FailedDiscoveryCheck."
        ),
    )
    message: str = field(
        5, doc="Details of the last transition for people, such as the error of the last check."
    )


class APIServiceSpec(Type):
    """The group version, its server and its priorities."""

    service: ServiceReference | None = field(
        1,
        doc=(
            "The Service in front of the server, which must listen on HTTPS. Unset means that the "
            "API server itself serves the version."
        ),
    )
    group: str = field(
        2, doc="API group that the server serves. Empty, for the core group, needs version v1."
    )
    version: str = field(3, doc="API version that the server serves, such as v1beta1.")
    insecureSkipTLSVerify: bool = field(
        4,
        doc=(
            "Do not verify the server's certificate; insecure. Excludes caBundle; not allowed "
            "without service. Defaults to false."
        ),
    )
    caBundle: bytes = field(
        5,
        doc=(
            "PEM-encoded CA certificates to verify the server's certificate with. Not allowed "
            "without service. Defaults to the system's trust roots."
        ),
    )
    groupPriorityMinimum: int32 = field(
        7,
        always=True,
        doc=(
            "Priority of the group among groups, from 1 to 20000, higher first. A group takes the "
            "highest value of its versions; ties are ordered by name."
        ),
        required=True,
    )
    versionPriority: int32 = field(
        8,
        always=True,
        doc=(
            "Priority of the version in its group, from 1 to 1000, higher first. Ties are broken "
            "by version: v2, v1, v1beta1."
        ),
        required=True,
    )


class APIServiceStatus(Type):
    """The observed state of an APIService."""

    conditions: list[APIServiceCondition] = field(
        1,
        keys=("type",),
        merge="type",
        doc=(
            "Aspects of the server's state, at most one per type. Available is True if requests "
            "can be sent to it."
        ),
    )


class ServiceReference(Type):
    """The Service in front of an aggregated API server."""

    namespace: str = field(1, doc="Namespace of the Service. Required.")
    name: str = field(2, doc="Name of the Service. Required.")
    port: int32 | None = field(
        3, doc="Port of the Service that serves HTTPS, from 1 to 65535. Defaults to 443."
    )
