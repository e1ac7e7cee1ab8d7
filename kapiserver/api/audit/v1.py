"""audit.k8s.io/v1: audit events and the policy that selects them."""

from __future__ import annotations

from kapiserver.api.authentication.v1 import UserInfo
from kapiserver.api.meta.v1 import ObjectMeta, Status
from kapiserver.api.runtime import Unknown
from kapiserver.api.scalar_types import MicroTime
from kapiserver.api.types import Kind, Type, field


class AuthenticationMetadata(Type):
    """How a user was authenticated, beyond the identity."""

    impersonationConstraint: str = field(
        1,
        doc=(
            "Verb of the constrained impersonation that was authorized, such as "
            "impersonate:user-info. Empty otherwise."
        ),
    )


class Event(Kind):
    """The record of one request at one stage."""

    level: str = field(
        1,
        always=True,
        doc=(
            "How much is recorded: None, Metadata, Request (with the request body) or "
            "RequestResponse (with both bodies)."
        ),
    )
    auditID: str = field(
        2, always=True, doc="Identifies the request; all events of a request have the same."
    )
    stage: str = field(
        3,
        always=True,
        doc=(
            "Stage of the request: RequestReceived, ResponseStarted (of a stream), "
            "ResponseComplete or Panic."
        ),
    )
    requestURI: str = field(
        4, always=True, doc="URI of the request as the client sent it, with the query."
    )
    verb: str = field(
        5,
        always=True,
        doc=(
            "Kubernetes verb of a resource request, such as list; otherwise the HTTP method in "
            "lower case."
        ),
    )
    user: UserInfo = field(6, doc="The authenticated user who made the request.")
    impersonatedUser: UserInfo | None = field(
        7, doc="The user that the request acts as. Absent without impersonation."
    )
    authenticationMetadata: AuthenticationMetadata | None = field(
        17, doc="How the user was authenticated. Absent if there is nothing to add to the identity."
    )
    sourceIPs: list[str] = field(
        8,
        doc=(
            "IP addresses that the request came through: X-Forwarded-For and X-Real-Ip first, the "
            "connection's address last. All but the last can be forged."
        ),
    )
    userAgent: str = field(
        16, doc="User-Agent header of the request. The client chooses it; do not trust it."
    )
    objectRef: ObjectReference | None = field(
        9,
        doc=(
            "Object that the request is for. Absent for lists and for paths that are not resources."
        ),
    )
    responseStatus: Status | None = field(
        10,
        doc=(
            "Status of the response, without details for a successful one. Absent before the "
            "response begins."
        ),
    )
    requestObject: Unknown | None = field(
        11,
        doc=(
            "Object in the request body as JSON, before defaulting and admission. Recorded from "
            "level Request on."
        ),
    )
    responseObject: Unknown | None = field(
        12, doc="Object in the response body as JSON. Recorded at level RequestResponse only."
    )
    requestReceivedTimestamp: MicroTime = field(13, doc="When the request reached the API server.")
    stageTimestamp: MicroTime = field(14, doc="When the request reached the stage of this event.")
    annotations: dict[str, str] = field(
        15,
        doc=(
            "Annotations that the server's plugins add while they handle the request, such as "
            "authorization.k8s.io/decision. Not those of the object."
        ),
    )


class GroupResources(Type):
    """Resources of one API group, optionally limited to objects by name."""

    group: str = field(1, doc="Name of the API group; empty means the core group.")
    resources: list[str] = field(
        2,
        doc=(
            'Resources that match: pods, pods/log, "*" for all resources, pods/* for all '
            "subresources of pods, */scale for scale of all. Empty means all."
        ),
    )
    resourceNames: list[str] = field(
        3, doc="Names of the objects that match; needs resources. Empty means all."
    )


class ObjectReference(Type):
    """The object that a request is for."""

    resource: str = field(1, doc="Plural name of the resource, such as pods.")
    namespace: str = field(2, doc="Namespace of the object; empty if it is cluster-scoped.")
    name: str = field(3, doc="Name of the object; empty for requests on collections.")
    uid: str = field(4, doc="metadata.uid of the object, if known.")
    apiGroup: str = field(
        5, doc="API group of the object, without version; empty for the core group."
    )
    apiVersion: str = field(6, doc="API version of the object, without group, such as v1.")
    resourceVersion: str = field(7, doc="metadata.resourceVersion of the object, if known.")
    subresource: str = field(
        8, doc="Subresource of the request, such as status; empty for the object itself."
    )


class Policy(Kind):
    """Which requests the API server records, and how much of each."""

    metadata: ObjectMeta = field(1, doc="Standard object's metadata. Optional.")
    rules: list[PolicyRule] = field(
        2,
        always=True,
        doc=(
            "Rules of which the first match sets a request's level. Requests without a match are "
            "not recorded."
        ),
    )
    omitStages: list[str] = field(
        3,
        doc="Stages at which no event is recorded, whatever the rule. Added to those of each rule.",
    )
    omitManagedFields: bool = field(
        4,
        doc=(
            "Leave metadata.managedFields out of recorded objects. Applies to rules that do not "
            "set it. Defaults to false."
        ),
    )


class PolicyRule(Type):
    """Requests to match and how much to record of them. All conditions must match; an empty one
    matches everything."""

    level: str = field(
        1,
        always=True,
        doc="How much to record of matching requests: None, Metadata, Request or RequestResponse.",
    )
    users: list[str] = field(
        2, doc="Names of the authenticated users that the rule matches. Empty means all users."
    )
    userGroups: list[str] = field(
        3, doc="Groups of which the user must be in at least one. Empty means any groups."
    )
    verbs: list[str] = field(
        4, doc="Verbs that the rule matches, such as get or update. Empty means all."
    )
    resources: list[GroupResources] = field(
        5,
        doc=(
            "Resources that the rule matches, by group. Empty means all, and also paths that are "
            "not resources, unless nonResourceURLs is set."
        ),
    )
    namespaces: list[str] = field(
        6,
        doc=(
            'Namespaces that the rule matches; "" matches cluster-scoped resources. Empty means '
            "all."
        ),
    )
    nonResourceURLs: list[str] = field(
        7,
        doc=(
            "Paths that are not resources, such as /metrics or /healthz*. A * matches the rest of "
            "the path and may stand only at the end."
        ),
    )
    omitStages: list[str] = field(
        8,
        doc=(
            "Stages at which no event is recorded for matching requests. Added to those of the "
            "policy."
        ),
    )
    omitManagedFields: bool | None = field(
        9,
        doc=(
            "Leave metadata.managedFields out of the recorded objects. Unset means what the "
            "policy says."
        ),
    )
