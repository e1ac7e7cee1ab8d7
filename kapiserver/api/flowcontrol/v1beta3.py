"""flowcontrol.apiserver.k8s.io/v1beta3: how requests are sorted into flows and share the server."""

from __future__ import annotations

from kapiserver.api.leaves import Time
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32


class ExemptPriorityLevelConfiguration(Type):
    """Seats of a level that never waits."""

    nominalConcurrencyShares: int32 | None = field(1)
    lendablePercent: int32 | None = field(2)


class FlowDistinguisherMethod(Type):
    """What tells the flows of a schema apart."""

    type: str = field(1, always=True, required=True)


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
    distinguisherMethod: FlowDistinguisherMethod | None = field(3)
    rules: list[PolicyRulesWithSubjects] = field(4, doc="Which requests.")


class FlowSchemaStatus(Type):
    """What is known of a flow schema."""

    conditions: list[FlowSchemaCondition] = field(1, keys=("type",), merge="type")


class GroupSubject(Type):
    """All users of a group."""

    name: str = field(1, always=True, required=True)


class LimitResponse(Type):
    """What becomes of requests when the seats are taken."""

    type: str = field(1, always=True, required=True, doc="Queue or Reject.")
    queuing: QueuingConfiguration | None = field(2)


class LimitedPriorityLevelConfiguration(Type):
    """Seats of a level, lent and borrowed."""

    nominalConcurrencyShares: int32 = field(1, always=True)
    limitResponse: LimitResponse = field(2, required=True)
    lendablePercent: int32 | None = field(3)
    borrowingLimitPercent: int32 | None = field(4)


class NonResourcePolicyRule(Type):
    """Verbs on paths."""

    verbs: list[str] = field(1, always=True, required=True, set=True)
    nonResourceURLs: list[str] = field(6, always=True, required=True, set=True)


class PolicyRulesWithSubjects(Type):
    """Who asks for what."""

    subjects: list[Subject] = field(1, always=True, required=True)
    resourceRules: list[ResourcePolicyRule] = field(2)
    nonResourceRules: list[NonResourcePolicyRule] = field(3)


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

    name: str = field(1, always=True, required=True)


class PriorityLevelConfigurationSpec(Type):
    """How large the share is."""

    type: str = field(1, always=True, required=True, doc="Limited or Exempt.")
    limited: LimitedPriorityLevelConfiguration | None = field(2)
    exempt: ExemptPriorityLevelConfiguration | None = field(3)


class PriorityLevelConfigurationStatus(Type):
    """What is known of a level."""

    conditions: list[PriorityLevelConfigurationCondition] = field(1, keys=("type",), merge="type")


class QueuingConfiguration(Type):
    """How requests wait."""

    queues: int32 = field(1, always=True)
    handSize: int32 = field(2, always=True)
    queueLengthLimit: int32 = field(3, always=True)


class ResourcePolicyRule(Type):
    """Verbs on resources, in namespaces or not."""

    verbs: list[str] = field(1, always=True, required=True, set=True)
    apiGroups: list[str] = field(2, always=True, required=True, set=True)
    resources: list[str] = field(3, always=True, required=True, set=True)
    clusterScope: bool = field(4)
    namespaces: list[str] = field(5, always=True, set=True)


class ServiceAccountSubject(Type):
    """A service account, or all of a namespace."""

    namespace: str = field(1, always=True, required=True)
    name: str = field(2, always=True, required=True)


class Subject(Type):
    """A user, a group or a service account."""

    kind: str = field(1, always=True, required=True)
    user: UserSubject | None = field(2)
    group: GroupSubject | None = field(3)
    serviceAccount: ServiceAccountSubject | None = field(4)


class UserSubject(Type):
    """One user."""

    name: str = field(1, always=True, required=True)
