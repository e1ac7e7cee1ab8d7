"""flowcontrol.apiserver.k8s.io/v1: flow schemas and priority levels for requests."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int32


class ExemptPriorityLevelConfiguration(Type):
    """Seats that an exempt priority level lends to other levels. Its own requests never wait."""

    nominalConcurrencyShares: int32 | None = field(
        1,
        doc=(
            "Shares of the server's concurrency limit, in proportion to the shares of all levels; "
            "zero or more. Defaults to 0."
        ),
    )
    lendablePercent: int32 | None = field(
        2,
        doc=(
            "Percentage of the level's nominal seats that other levels may borrow, from 0 to 100. "
            "Defaults to 0."
        ),
    )


class FlowDistinguisherMethod(Type):
    """Division of the requests of a flow schema into flows."""

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
        2, required=True, doc="The requests that match, and their priority level."
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
    """The requests that a flow schema matches, and their priority level."""

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
            "Division of the matched requests into flows. If it is absent, all of them form one "
            "flow."
        ),
    )
    rules: list[PolicyRulesWithSubjects] = field(
        4,
        doc=(
            "Rules for the requests that the schema matches; one matching rule is enough. If the "
            "list is empty, no request matches."
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
    """The treatment of requests beyond the limit of a level."""

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
    """Concurrency limit of a priority level, and the treatment of requests beyond it."""

    nominalConcurrencyShares: int32 | None = field(
        1,
        always=True,
        doc=(
            "Shares of the server's concurrency limit, in proportion to the shares of all levels. "
            "Zero or more; defaults to 30."
        ),
    )
    limitResponse: LimitResponse = field(
        2, required=True, doc="The treatment of requests while all seats of the level are taken."
    )
    lendablePercent: int32 | None = field(
        3,
        doc=(
            "Percentage of the nominal seats that other levels may borrow while they are idle, "
            "from 0 to 100. Defaults to 0."
        ),
    )
    borrowingLimitPercent: int32 | None = field(
        4,
        doc=(
            "Limit on the seats that the level borrows, in percent of its nominal seats. No limit "
            "if it is absent."
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
    """Matches requests by user and by resource or path; both must match."""

    subjects: list[Subject] = field(
        1,
        always=True,
        required=True,
        doc="Users, groups and service accounts whose requests match. At least one.",
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
        2, required=True, doc="The concurrency limit of the level, if it has one."
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
    """The type of a priority level, and its concurrency limit."""

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
    """The observed state of a priority level."""

    conditions: list[PriorityLevelConfigurationCondition] = field(
        1, keys=("type",), merge="type", doc="The conditions of the priority level, by type."
    )


class QueuingConfiguration(Type):
    """The queues in which requests of a priority level wait."""

    queues: int32 = field(
        1,
        always=True,
        doc="Number of queues; 1 to 10000000. More queues separate flows better. Defaults to 64.",
    )
    handSize: int32 = field(
        2,
        always=True,
        doc=(
            "Number of queues that each flow may use; requests join the shortest. From 1 to the "
            "number of queues. Defaults to 8."
        ),
    )
    queueLengthLimit: int32 = field(
        3,
        always=True,
        doc=(
            "Number of requests that may wait in each queue; further ones are rejected. 1 or "
            "more. Defaults to 50."
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
            "If true, requests without a namespace match too: requests for cluster-scoped objects "
            "or for all namespaces."
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
    """The user of a request; the field of its kind is set."""

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
