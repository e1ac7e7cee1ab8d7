"""admissionregistration.k8s.io/v1alpha1: webhooks and policies that change or refuse writes."""

from __future__ import annotations

from kapiserver.api.admissionregistration.v1 import RuleWithOperations
from kapiserver.api.meta.v1 import Condition, LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int64


class ApplyConfiguration(Type):
    """A mutation by merging what an expression gives."""

    expression: str = field(1, doc="A CEL expression.")


class AuditAnnotation(Type):
    """A remark for the audit log, computed from the request."""

    key: str = field(1, always=True)
    valueExpression: str = field(2, always=True)


class ExpressionWarning(Type):
    """What is doubtful about one expression."""

    fieldRef: str = field(2, always=True)
    warning: str = field(3, always=True)


class JSONPatch(Type):
    """A mutation by the patches that an expression gives."""

    expression: str = field(1, doc="A CEL expression.")


class MatchCondition(Type):
    """An expression that must be true for a request to be looked at."""

    name: str = field(1, always=True, required=True, doc="Its name.")
    expression: str = field(2, always=True, required=True, doc="A CEL expression.")


class MatchResources(Type):
    """Which requests a policy is for."""

    atomic = True

    namespaceSelector: LabelSelector | None = field(1, doc="Which namespaces, by their labels.")
    objectSelector: LabelSelector | None = field(2, doc="Which objects, by their labels.")
    resourceRules: list[NamedRuleWithOperations] = field(3, doc="Rules about resources.")
    excludeResourceRules: list[NamedRuleWithOperations] = field(4, doc="Requests it is not about.")
    matchPolicy: str | None = field(
        7,
        enum=("Exact", "Equivalent"),
        doc="Exact or Equivalent: whether other versions match too.",
    )


class MutatingAdmissionPolicy(Kind):
    """Expressions that change writes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: MutatingAdmissionPolicySpec = field(2, doc="The desired state.")


class MutatingAdmissionPolicyBinding(Kind):
    """Puts a mutating policy to work, with its parameters."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: MutatingAdmissionPolicyBindingSpec = field(2, doc="The desired state.")


class MutatingAdmissionPolicyBindingSpec(Type):
    """Which policy, where, with which parameters."""

    policyName: str = field(1, doc="The policy, by name.")
    paramRef: ParamRef | None = field(2, doc="The parameters.")
    matchResources: MatchResources | None = field(3, doc="Which requests it is bound to.")


class MutatingAdmissionPolicySpec(Type):
    """What is changed, and in which requests."""

    paramKind: ParamKind | None = field(1, doc="The kind of the parameters.")
    matchConstraints: MatchResources | None = field(2, doc="Which requests it is about.")
    variables: list[Variable] = field(3, doc="Named expressions that others use.")
    mutations: list[Mutation] = field(4, doc="What is changed, one after another.")
    failurePolicy: str | None = field(
        5, enum=("Ignore", "Fail"), doc="Fail or Ignore: what an error means."
    )
    matchConditions: list[MatchCondition] = field(
        6, keys=("name",), merge="name", doc="CEL expressions that must all be true."
    )
    reinvocationPolicy: str = field(
        7, enum=("Never", "IfNeeded"), doc="Never or IfNeeded: whether it is asked again."
    )


class Mutation(Type):
    """One change of the object."""

    patchType: str = field(
        2,
        always=True,
        enum=("ApplyConfiguration", "JSONPatch"),
        required=True,
        doc="ApplyConfiguration or JSONPatch.",
    )
    applyConfiguration: ApplyConfiguration | None = field(
        3, doc="A change in the form of a configuration to apply."
    )
    jsonPatch: JSONPatch | None = field(4, doc="A change in the form of a JSON patch.")


class NamedRuleWithOperations(Type):
    """Operations on resources, or on some by name."""

    atomic = True

    resourceNames: list[str] = field(1, doc="Names of objects; none: all.")
    ruleWithOperations: RuleWithOperations = field(2, inline=True)


class ParamKind(Type):
    """The kind of a policy's parameters."""

    atomic = True

    apiVersion: str = field(1, doc="Group and version of the object.")
    kind: str = field(2, doc="The kind of the object.")


class ParamRef(Type):
    """Where the parameters of a binding are."""

    atomic = True

    name: str = field(1, doc="Its name.")
    namespace: str = field(2, doc="Its namespace.")
    selector: LabelSelector | None = field(3, doc="Which objects, by their labels.")
    parameterNotFoundAction: str | None = field(
        4, enum=("Allow", "Deny"), doc="Allow or Deny where there are none."
    )


class TypeChecking(Type):
    """What checking the types in a policy's expressions found."""

    expressionWarnings: list[ExpressionWarning] = field(1)


class ValidatingAdmissionPolicy(Kind):
    """Expressions that refuse writes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ValidatingAdmissionPolicySpec = field(2, doc="The desired state.")
    status: ValidatingAdmissionPolicyStatus = field(3, doc="The observed state.")


class ValidatingAdmissionPolicyBinding(Kind):
    """Puts a validating policy to work, with its parameters."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    spec: ValidatingAdmissionPolicyBindingSpec = field(2, required=True, doc="The desired state.")


class ValidatingAdmissionPolicyBindingSpec(Type):
    """Which policy, where, with which parameters and effect."""

    policyName: str = field(1, required=True)
    paramRef: ParamRef | None = field(2)
    matchResources: MatchResources | None = field(3)
    validationActions: list[str] = field(4, required=True, enum=("Deny", "Warn", "Audit"), set=True)


class ValidatingAdmissionPolicySpec(Type):
    """What is checked, and in which requests."""

    paramKind: ParamKind | None = field(1)
    matchConstraints: MatchResources | None = field(2)
    validations: list[Validation] = field(3)
    failurePolicy: str | None = field(4, enum=("Ignore", "Fail"))
    auditAnnotations: list[AuditAnnotation] = field(5)
    matchConditions: list[MatchCondition] = field(6, keys=("name",), merge="name")
    variables: list[Variable] = field(7, keys=("name",), merge="name")


class ValidatingAdmissionPolicyStatus(Type):
    """What is known of a policy."""

    observedGeneration: int64 = field(1)
    typeChecking: TypeChecking | None = field(2)
    conditions: list[Condition] = field(3, keys=("type",))


class Validation(Type):
    """One expression that must be true, and what is said when it is not."""

    expression: str = field(
        1, proto="Expression", always=True, doc="Must be true for the request to pass."
    )
    message: str = field(2, doc="What is said when it is not.")
    reason: str | None = field(3)
    messageExpression: str = field(4)


class Variable(Type):
    """A named expression that others use."""

    name: str = field(1, proto="Name", always=True, doc="What expressions call it.", required=True)
    expression: str = field(
        2, proto="Expression", always=True, doc="Gives the value.", required=True
    )
