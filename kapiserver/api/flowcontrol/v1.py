"""flowcontrol.apiserver.k8s.io/v1: flow schemas and priority levels for requests."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int32


class ExemptPriorityLevelConfiguration(Type):
    """Seats that an exempt priority level lends to others. Its own requests never wait."""

    nominalConcurrencyShares: int32 | None = field(
        1,
        doc=(
            "The level's shares of the server's concurrency limit, compared with those of all "
            "levels; zero or more. Defaults to 0."
        ),
    )
    lendablePercent: int32 | None = field(
        2,
        doc=(
            "Which percentage of the level's nominal seats others may borrow, from 0 to 100. "
            "Defaults to 0."
        ),
    )


class FlowDistinguisherMethod(Type):
    """How requests of a flow schema are divided into flows."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "ByUser makes one flow for each user, ByNamespace one for each namespace of the "
            "requested objects."
        ),
    )


class FlowSchema(Kind):
    """Matches requests and assigns them to a priority level."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The schemas exempt and catch-all are mandatory and "
            "cannot be deleted."
        ),
    )
    spec: FlowSchemaSpec = field(
        2, required=True, doc="Which requests match, and their priority level."
    )
    status: FlowSchemaStatus = field(3, doc="Whether the schema is in force.")


class FlowSchemaCondition(Type):
    """One condition of a flow schema."""

    type: str = field(
        1,
        required=True,
        doc=(
            "Type of the condition. Dangling is true if the schema names a priority level that "
            "does not exist."
        ),
    )
    status: str = field(2, doc="Whether the flow schema has the condition: True, False or Unknown.")
    lastTransitionTime: Time = field(
        3, doc="When the flow schema last changed the status of the condition."
    )
    reason: str = field(
        4, doc="A CamelCase word for why the flow schema has the condition, such as NotFound."
    )
    message: str = field(5, doc="A text for people about why the flow schema has the condition.")


class FlowSchemaSpec(Type):
    """Which requests a flow schema matches, and their priority level."""

    priorityLevelConfiguration: PriorityLevelConfigurationReference = field(
        1,
        required=True,
        doc=(
            "The priority level of the matched requests. If it does not exist, the schema is "
            "ignored."
        ),
    )
    matchingPrecedence: int32 = field(
        2,
        always=True,
        doc=(
            "Order among the schemas that match a request: the lowest number wins, then the name. "
            "1 to 10000, defaults to 1000; 1 is for exempt only."
        ),
    )
    distinguisherMethod: FlowDistinguisherMethod | None = field(
        3,
        doc=(
            "How the matched requests are divided into flows. If it is absent, all of them are "
            "one flow."
        ),
    )
    rules: list[PolicyRulesWithSubjects] = field(
        4,
        doc=(
            "The requests that the schema matches: those that any rule matches. If the list is "
            "empty, it matches none."
        ),
    )


class FlowSchemaStatus(Type):
    """The state of a flow schema."""

    conditions: list[FlowSchemaCondition] = field(
        1, keys=("type",), merge="type", doc="The conditions of the flow schema, by type."
    )


class GroupSubject(Type):
    """All users of a group."""

    name: str = field(
        1, always=True, required=True, doc='Name of the group that matches, or "*" for all groups.'
    )


class LimitResponse(Type):
    """What happens to requests beyond a level's limit."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc="Queue lets requests wait in queues, Reject answers them with 429 at once.",
    )
    queuing: QueuingConfiguration | None = field(
        2, doc="The queues, for the type Queue. Must be absent for the type Reject."
    )


class LimitedPriorityLevelConfiguration(Type):
    """The concurrency limit of a priority level, and what happens beyond it."""

    nominalConcurrencyShares: int32 | None = field(
        1,
        always=True,
        doc=(
            "The level's shares of the server's concurrency limit, compared with those of all "
            "levels. Zero or more; defaults to 30."
        ),
    )
    limitResponse: LimitResponse = field(
        2, required=True, doc="What happens to requests for which the level has no seat free."
    )
    lendablePercent: int32 | None = field(
        3,
        doc=(
            "Which percentage of the nominal seats other levels may borrow while this one leaves "
            "them idle; 0 to 100. Defaults to 0."
        ),
    )
    borrowingLimitPercent: int32 | None = field(
        4,
        doc=(
            "How many seats the level may borrow from others, in percent of its nominal seats. No "
            "limit if it is absent."
        ),
    )


class NonResourcePolicyRule(Type):
    """Matches requests for paths that are not resources, by verb and path."""

    verbs: list[str] = field(
        1,
        always=True,
        required=True,
        set=True,
        doc='The verbs that match, in lower case, or "*" alone for all. At least one.',
    )
    nonResourceURLs: list[str] = field(
        6,
        always=True,
        required=True,
        set=True,
        doc=(
            'The paths that match, such as /healthz. A final /* matches all paths below, "*" '
            "alone all paths. At least one."
        ),
    )


class PolicyRulesWithSubjects(Type):
    """Matches requests by user and by what is requested; both must match."""

    subjects: list[Subject] = field(
        1,
        always=True,
        required=True,
        doc=(
            "The users, groups and service accounts of whom one must make the request. At least "
            "one."
        ),
    )
    resourceRules: list[ResourcePolicyRule] = field(
        2, doc="Rules for requests of resources. At least one rule of either kind is needed."
    )
    nonResourceRules: list[NonResourcePolicyRule] = field(
        3, doc="Rules for requests of other paths. At least one rule of either kind is needed."
    )


class PriorityLevelConfiguration(Kind):
    """A priority level: a share of the server's concurrency for some requests."""

    metadata: ObjectMeta = field(
        1,
        doc=(
            "Standard object's metadata. The levels exempt and catch-all are mandatory and cannot "
            "be deleted."
        ),
    )
    spec: PriorityLevelConfigurationSpec = field(
        2, required=True, doc="Whether the level limits requests, and how many it executes."
    )
    status: PriorityLevelConfigurationStatus = field(3, doc="The state of the priority level.")


class PriorityLevelConfigurationCondition(Type):
    """One condition of a priority level."""

    type: str = field(
        1, required=True, doc="Type of the condition; Kubernetes defines none so far."
    )
    status: str = field(
        2, doc="Whether the priority level has the condition: True, False or Unknown."
    )
    lastTransitionTime: Time = field(
        3, doc="When the priority level last changed the status of the condition."
    )
    reason: str = field(4, doc="A CamelCase word for why the priority level has the condition.")
    message: str = field(5, doc="A text for people about why the priority level has the condition.")


class PriorityLevelConfigurationReference(Type):
    """Names a priority level."""

    name: str = field(
        1, always=True, required=True, doc="Name of the PriorityLevelConfiguration to use."
    )


class PriorityLevelConfigurationSpec(Type):
    """Whether a priority level limits its requests, and how."""

    type: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Limited applies a concurrency limit. Exempt executes requests at once; only the "
            "level named exempt may be so."
        ),
    )
    limited: LimitedPriorityLevelConfiguration | None = field(
        2, doc="The concurrency limit. Required for the type Limited, not allowed for Exempt."
    )
    exempt: ExemptPriorityLevelConfiguration | None = field(
        3, doc="The seats that the exempt level may lend. Allowed for the type Exempt only."
    )


class PriorityLevelConfigurationStatus(Type):
    """What is observed of a priority level."""

    conditions: list[PriorityLevelConfigurationCondition] = field(
        1, keys=("type",), merge="type", doc="The conditions of the priority level, by type."
    )


class QueuingConfiguration(Type):
    """The queues in which requests of a priority level wait."""

    queues: int32 = field(
        1,
        always=True,
        doc=(
            "How many queues the level has; 1 to 10000000. More queues keep flows better apart. "
            "Defaults to 64."
        ),
    )
    handSize: int32 = field(
        2,
        always=True,
        doc=(
            "How many queues each flow is assigned; its requests join the shortest. 1 up to the "
            "number of queues. Defaults to 8."
        ),
    )
    queueLengthLimit: int32 = field(
        3,
        always=True,
        doc=(
            "How many requests may wait in each queue; further ones are rejected. 1 or more. "
            "Defaults to 50."
        ),
    )


class ResourcePolicyRule(Type):
    """Matches requests for resources by verb, group, resource and namespace; all must match."""

    verbs: list[str] = field(
        1,
        always=True,
        required=True,
        set=True,
        doc=(
            'The verbs that match, such as get or list, or "*" alone for all of them. At least one.'
        ),
    )
    apiGroups: list[str] = field(
        2,
        always=True,
        required=True,
        set=True,
        doc=(
            'The API groups that match, or "*" alone for all. An empty string is the core group. '
            "At least one."
        ),
    )
    resources: list[str] = field(
        3,
        always=True,
        required=True,
        set=True,
        doc=(
            "The resources that match, in lower case plural, with subresources such as pods/log; "
            '"*" alone for all. At least one.'
        ),
    )
    clusterScope: bool = field(
        4,
        doc=(
            "If true, requests without a namespace match too: those for cluster-scoped objects or "
            "for all namespaces."
        ),
    )
    namespaces: list[str] = field(
        5,
        always=True,
        set=True,
        doc=(
            'The namespaces that match, or "*" alone for all. At least one, unless clusterScope '
            "is true."
        ),
    )


class ServiceAccountSubject(Type):
    """A service account, or all service accounts of a namespace."""

    namespace: str = field(
        1, always=True, required=True, doc="Namespace of the service accounts that match."
    )
    name: str = field(
        2,
        always=True,
        required=True,
        doc='Name of the service account that matches, or "*" for all in the namespace.',
    )


class Subject(Type):
    """The maker of a request; the field that kind names is set."""

    kind: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "User, Group or ServiceAccount; the field of that kind must be set, the others absent."
        ),
    )
    user: UserSubject | None = field(2, doc="The user that matches. For the kind User only.")
    group: GroupSubject | None = field(
        3, doc="The group whose members match. For the kind Group only."
    )
    serviceAccount: ServiceAccountSubject | None = field(
        4, doc="The service account that matches. For the kind ServiceAccount only."
    )


class UserSubject(Type):
    """A user by name."""

    name: str = field(
        1, always=True, required=True, doc='Name of the user that matches, or "*" for all users.'
    )
