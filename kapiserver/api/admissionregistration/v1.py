"""admissionregistration.k8s.io/v1: webhooks and policies that change or refuse writes."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class ApplyConfiguration(Type):
    """A mutation by merging what an expression gives."""

    expression: str = field(1)


class AuditAnnotation(Type):
    """A remark for the audit log, computed from the request."""

    key: str = field(1, always=True, required=True)
    valueExpression: str = field(2, always=True, required=True)


class ExpressionWarning(Type):
    """What is doubtful about one expression."""

    fieldRef: str = field(2, always=True, required=True)
    warning: str = field(3, always=True, required=True)


class JSONPatch(Type):
    """A mutation by the patches that an expression gives."""

    expression: str = field(1)


class MatchCondition(Type):
    """An expression that must be true for a request to be looked at."""

    name: str = field(1, always=True, required=True)
    expression: str = field(2, always=True, required=True)


class MatchResources(Type):
    """Which requests a policy is for."""

    atomic = True

    namespaceSelector: LabelSelector | None = field(1)
    objectSelector: LabelSelector | None = field(2)
    resourceRules: list[NamedRuleWithOperations] = field(3)
    excludeResourceRules: list[NamedRuleWithOperations] = field(4)
    matchPolicy: str | None = field(7, enum=("Exact", "Equivalent"))


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

    policyName: str = field(1)
    paramRef: ParamRef | None = field(2)
    matchResources: MatchResources | None = field(3)


class MutatingAdmissionPolicySpec(Type):
    """What is changed, and in which requests."""

    paramKind: ParamKind | None = field(1)
    matchConstraints: MatchResources | None = field(2)
    variables: list[Variable] = field(3)
    mutations: list[Mutation] = field(4)
    failurePolicy: str | None = field(5, enum=("Ignore", "Fail"))
    matchConditions: list[MatchCondition] = field(6, keys=("name",), merge="name")
    reinvocationPolicy: str = field(7, enum=("Never", "IfNeeded"))


class MutatingWebhook(Type):
    """A server that is asked to change writes."""

    name: str = field(1, always=True, doc="A domain name of its own.", required=True)
    clientConfig: WebhookClientConfig = field(2, doc="Where the webhook is.", required=True)
    rules: list[RuleWithOperations] = field(3, doc="Which requests it is asked about.")
    failurePolicy: str | None = field(
        4, enum=("Ignore", "Fail"), doc="What an error means: Fail or Ignore."
    )
    matchPolicy: str | None = field(9, enum=("Exact", "Equivalent"))
    namespaceSelector: LabelSelector | None = field(5)
    objectSelector: LabelSelector | None = field(11)
    sideEffects: str | None = field(
        6,
        always=True,
        enum=("Unknown", "None", "Some", "NoneOnDryRun"),
        doc="Whether asking it has effects elsewhere.",
        required=True,
    )
    timeoutSeconds: int32 | None = field(7, doc="How long it may take.")
    admissionReviewVersions: list[str] = field(
        8, always=True, doc="Versions of AdmissionReview it understands.", required=True
    )
    reinvocationPolicy: str | None = field(
        10,
        enum=("Never", "IfNeeded"),
        doc="Whether it is asked again when others changed the object.",
    )
    matchConditions: list[MatchCondition] = field(12, keys=("name",), merge="name")


class MutatingWebhookConfiguration(Kind):
    """Webhooks that may change writes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    webhooks: list[MutatingWebhook] = field(2, proto="Webhooks", keys=("name",), merge="name")


class Mutation(Type):
    """One change of the object."""

    patchType: str = field(2, always=True, enum=("ApplyConfiguration", "JSONPatch"), required=True)
    applyConfiguration: ApplyConfiguration | None = field(3)
    jsonPatch: JSONPatch | None = field(4)


class NamedRuleWithOperations(Type):
    """Operations on resources, or on some by name."""

    atomic = True

    resourceNames: list[str] = field(1)
    ruleWithOperations: RuleWithOperations = field(2, inline=True)


class ParamKind(Type):
    """The kind of a policy's parameters."""

    atomic = True

    apiVersion: str = field(1)
    kind: str = field(2)


class ParamRef(Type):
    """Where the parameters of a binding are."""

    atomic = True

    name: str = field(1)
    namespace: str = field(2)
    selector: LabelSelector | None = field(3)
    parameterNotFoundAction: str | None = field(4)


class Rule(Type):
    """Resources by group, version, name and scope."""

    apiGroups: list[str] = field(1, doc='Groups, or "*".')
    apiVersions: list[str] = field(2, doc='Versions, or "*".')
    resources: list[str] = field(3, doc='Resources and subresources, or "*".')
    scope: str | None = field(
        4, enum=("Cluster", "Namespaced", "*"), doc='Cluster, Namespaced or "*".'
    )


class RuleWithOperations(Type):
    """Operations on resources."""

    operations: list[str] = field(1, enum=("*", "CREATE", "UPDATE", "DELETE", "CONNECT"))
    rule: Rule = field(2, inline=True)


class ServiceReference(Type):
    """The service behind which a webhook is."""

    namespace: str = field(1, always=True, required=True)
    name: str = field(2, always=True, required=True)
    path: str | None = field(3)
    port: int32 | None = field(4)


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


class ValidatingWebhook(Type):
    """A server that is asked whether a write may pass."""

    name: str = field(1, always=True, doc="A domain name of its own.", required=True)
    clientConfig: WebhookClientConfig = field(2, doc="Where the webhook is.", required=True)
    rules: list[RuleWithOperations] = field(3, doc="Which requests it is asked about.")
    failurePolicy: str | None = field(
        4, enum=("Ignore", "Fail"), doc="What an error means: Fail or Ignore."
    )
    matchPolicy: str | None = field(9, enum=("Exact", "Equivalent"))
    namespaceSelector: LabelSelector | None = field(5)
    objectSelector: LabelSelector | None = field(10)
    sideEffects: str | None = field(
        6,
        always=True,
        enum=("Unknown", "None", "Some", "NoneOnDryRun"),
        doc="Whether asking it has effects elsewhere.",
        required=True,
    )
    timeoutSeconds: int32 | None = field(7, doc="How long it may take.")
    admissionReviewVersions: list[str] = field(
        8, always=True, doc="Versions of AdmissionReview it understands.", required=True
    )
    matchConditions: list[MatchCondition] = field(11, keys=("name",), merge="name")


class ValidatingWebhookConfiguration(Kind):
    """Webhooks that may refuse writes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    webhooks: list[ValidatingWebhook] = field(2, proto="Webhooks", keys=("name",), merge="name")


class Validation(Type):
    """One expression that must be true, and what is said when it is not."""

    expression: str = field(
        1,
        proto="Expression",
        always=True,
        doc="Must be true for the request to pass.",
        required=True,
    )
    message: str = field(2, doc="What is said when it is not.")
    reason: str | None = field(3)
    messageExpression: str = field(4)


class Variable(Type):
    """A named expression that others use."""

    atomic = True

    name: str = field(1, proto="Name", always=True, doc="What expressions call it.", required=True)
    expression: str = field(
        2, proto="Expression", always=True, doc="Gives the value.", required=True
    )


class WebhookClientConfig(Type):
    """How a webhook is reached."""

    url: str | None = field(3, doc="The address, where there is no service.")
    service: ServiceReference | None = field(1, doc="The service, where there is no address.")
    caBundle: bytes = field(2, doc="Certificates to check the server's by, as PEM.")
