"""flowcontrol.apiserver.k8s.io/v1: how requests are sorted into flows and share the server."""

from __future__ import annotations

from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.scalar_types import Time
from kapiserver.api.types import Kind, Type, field, int32


class ExemptPriorityLevelConfiguration(Type):
    """Seats of a level that never waits."""

    nominalConcurrencyShares: int32 | None = field(
        1, doc="Its part of what the server does at once."
    )
    lendablePercent: int32 | None = field(2, doc="How much of that others may have.")


class FlowDistinguisherMethod(Type):
    """What tells the flows of a schema apart."""

    type: str = field(1, always=True, required=True, doc="ByUser or ByNamespace.")


class FlowSchema(Kind):
    """Sorts requests into flows and gives them a level."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: FlowSchemaSpec = field(2, required=True, doc="The desired state.")
    status: FlowSchemaStatus = field(3, doc="The observed state.")


class FlowSchemaCondition(Type):
    """One finding about a flow schema."""

    type: str = field(1, required=True, doc="What the finding is about.")
    status: str = field(2, doc="True, False or Unknown.")
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class FlowSchemaSpec(Type):
    """Which requests, and their level."""

    priorityLevelConfiguration: PriorityLevelConfigurationReference = field(
        1, required=True, doc="The level of the requests."
    )
    matchingPrecedence: int32 = field(
        2, always=True, doc="Which schema is looked at first; the smaller."
    )
    distinguisherMethod: FlowDistinguisherMethod | None = field(
        3, doc="What tells the flows apart."
    )
    rules: list[PolicyRulesWithSubjects] = field(4, doc="Which requests.")


class FlowSchemaStatus(Type):
    """What is known of a flow schema."""

    conditions: list[FlowSchemaCondition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )


class GroupSubject(Type):
    """All users of a group."""

    name: str = field(1, always=True, required=True, doc="Its name.")


class LimitResponse(Type):
    """What becomes of requests when the seats are taken."""

    type: str = field(1, always=True, required=True, doc="Queue or Reject.")
    queuing: QueuingConfiguration | None = field(2, doc="How requests wait.")


class LimitedPriorityLevelConfiguration(Type):
    """Seats of a level, lent and borrowed."""

    nominalConcurrencyShares: int32 | None = field(
        1, always=True, doc="Its part of what the server does at once."
    )
    limitResponse: LimitResponse = field(
        2, required=True, doc="What becomes of requests beyond that."
    )
    lendablePercent: int32 | None = field(3, doc="How much of that others may have.")
    borrowingLimitPercent: int32 | None = field(4, doc="How much it may have of others.")


class NonResourcePolicyRule(Type):
    """Verbs on paths."""

    verbs: list[str] = field(
        1, always=True, required=True, set=True, doc="What may be done; *: everything."
    )
    nonResourceURLs: list[str] = field(
        6,
        always=True,
        required=True,
        set=True,
        doc="Paths that are no resource; * at the end: all below.",
    )


class PolicyRulesWithSubjects(Type):
    """Who asks for what."""

    subjects: list[Subject] = field(1, always=True, required=True, doc="Who it is about.")
    resourceRules: list[ResourcePolicyRule] = field(2, doc="Rules about resources.")
    nonResourceRules: list[NonResourcePolicyRule] = field(3, doc="Rules about other paths.")


class PriorityLevelConfiguration(Kind):
    """A share of the server."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: PriorityLevelConfigurationSpec = field(2, required=True, doc="The desired state.")
    status: PriorityLevelConfigurationStatus = field(3, doc="The observed state.")


class PriorityLevelConfigurationCondition(Type):
    """One finding about a level."""

    type: str = field(1, required=True, doc="What the finding is about.")
    status: str = field(2, doc="True, False or Unknown.")
    lastTransitionTime: Time = field(3, doc="When the status last changed.")
    reason: str = field(4, doc="Why, in one word for programs.")
    message: str = field(5, doc="Why, for people.")


class PriorityLevelConfigurationReference(Type):
    """Names a level."""

    name: str = field(1, always=True, required=True, doc="Its name.")


class PriorityLevelConfigurationSpec(Type):
    """How large the share is."""

    type: str = field(1, always=True, required=True, doc="Limited or Exempt.")
    limited: LimitedPriorityLevelConfiguration | None = field(2, doc="Requests are bounded.")
    exempt: ExemptPriorityLevelConfiguration | None = field(3, doc="Requests are not bounded.")


class PriorityLevelConfigurationStatus(Type):
    """What is known of a level."""

    conditions: list[PriorityLevelConfigurationCondition] = field(
        1, keys=("type",), merge="type", doc="What was found out about it."
    )


class QueuingConfiguration(Type):
    """How requests wait."""

    queues: int32 = field(1, always=True, doc="How many queues there are.")
    handSize: int32 = field(2, always=True, doc="Among how many of them a flow chooses.")
    queueLengthLimit: int32 = field(3, always=True, doc="How many requests wait in each.")


class ResourcePolicyRule(Type):
    """Verbs on resources, in namespaces or not."""

    verbs: list[str] = field(
        1, always=True, required=True, set=True, doc="What may be done; *: everything."
    )
    apiGroups: list[str] = field(
        2, always=True, required=True, set=True, doc="The API groups; *: all."
    )
    resources: list[str] = field(
        3, always=True, required=True, set=True, doc="The resources; *: all."
    )
    clusterScope: bool = field(4, doc="Whether objects outside of namespaces are meant.")
    namespaces: list[str] = field(5, always=True, set=True, doc="The namespaces; *: all.")


class ServiceAccountSubject(Type):
    """A service account, or all of a namespace."""

    namespace: str = field(1, always=True, required=True, doc="Its namespace.")
    name: str = field(2, always=True, required=True, doc="Its name.")


class Subject(Type):
    """A user, a group or a service account."""

    kind: str = field(1, always=True, required=True, doc="User, Group or ServiceAccount.")
    user: UserSubject | None = field(2, doc="Who it is.")
    group: GroupSubject | None = field(3, doc="A group of users.")
    serviceAccount: ServiceAccountSubject | None = field(4, doc="A service account.")


class UserSubject(Type):
    """One user."""

    name: str = field(1, always=True, required=True, doc="Its name.")
