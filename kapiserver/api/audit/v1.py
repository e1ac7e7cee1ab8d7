"""audit.k8s.io/v1: what the server records of requests, and what decides that."""

from __future__ import annotations

from kapiserver.api.authentication.v1 import UserInfo
from kapiserver.api.meta.v1 import ObjectMeta, Status
from kapiserver.api.runtime import Unknown
from kapiserver.api.scalar_types import MicroTime
from kapiserver.api.types import Kind, Type, field


class AuthenticationMetadata(Type):
    """How the user was told, beyond the name."""

    impersonationConstraint: str = field(1)


class Event(Kind):
    """One request at one of its stages."""

    level: str = field(1, always=True, doc="How much is recorded.")
    auditID: str = field(2, always=True, doc="Names the request.")
    stage: str = field(3, always=True, doc="How far the request was.")
    requestURI: str = field(4, always=True, doc="The address as it was sent.")
    verb: str = field(5, always=True, doc="What was asked for.")
    user: UserInfo = field(6, doc="Who asked.")
    impersonatedUser: UserInfo | None = field(7)
    authenticationMetadata: AuthenticationMetadata | None = field(17)
    sourceIPs: list[str] = field(8)
    userAgent: str = field(16)
    objectRef: ObjectReference | None = field(9, doc="What the request was about.")
    responseStatus: Status | None = field(10, doc="The outcome.")
    requestObject: Unknown | None = field(11)
    responseObject: Unknown | None = field(12)
    requestReceivedTimestamp: MicroTime = field(13)
    stageTimestamp: MicroTime = field(14)
    annotations: dict[str, str] = field(15)


class GroupResources(Type):
    """Resources of a group, or some by name."""

    group: str = field(1)
    resources: list[str] = field(2)
    resourceNames: list[str] = field(3)


class ObjectReference(Type):
    """The object that a request was about."""

    resource: str = field(1)
    namespace: str = field(2)
    name: str = field(3)
    uid: str = field(4)
    apiGroup: str = field(5)
    apiVersion: str = field(6)
    resourceVersion: str = field(7)
    subresource: str = field(8)


class Policy(Kind):
    """How much is recorded of which requests."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    rules: list[PolicyRule] = field(2, always=True)
    omitStages: list[str] = field(3)
    omitManagedFields: bool = field(4)


class PolicyRule(Type):
    """Some requests, and how much is recorded of them."""

    level: str = field(1, always=True)
    users: list[str] = field(2)
    userGroups: list[str] = field(3)
    verbs: list[str] = field(4, doc='What may be done, or "*".')
    resources: list[GroupResources] = field(5, doc='Resources, or "*".')
    namespaces: list[str] = field(6)
    nonResourceURLs: list[str] = field(7, doc='Paths, with "*" at their end.')
    omitStages: list[str] = field(8)
    omitManagedFields: bool | None = field(9)
