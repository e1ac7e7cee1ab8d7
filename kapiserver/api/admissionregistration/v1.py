"""admissionregistration.k8s.io/v1: webhooks and policies that change or refuse writes."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class ApplyConfiguration(Type):
    """A mutation by merging what an expression gives."""

    expression: str = field(1, doc="A CEL expression.")


class AuditAnnotation(Type):
    """A remark for the audit log, computed from the request."""

    key: str = field(1, always=True, required=True, doc="Its key.")
    valueExpression: str = field(2, always=True, required=True, doc="A CEL expression of the text.")


class ExpressionWarning(Type):
    """What is doubtful about one expression."""

    fieldRef: str = field(2, always=True, required=True, doc="Path to the expression.")
    warning: str = field(3, always=True, required=True, doc="What was found wrong.")


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


class MutatingWebhook(Type):
    """A server that is asked to change writes."""

    name: str = field(1, always=True, doc="A domain name of its own.", required=True)
    clientConfig: WebhookClientConfig = field(2, doc="Where the webhook is.", required=True)
    rules: list[RuleWithOperations] = field(3, doc="Which requests it is asked about.")
    failurePolicy: str | None = field(
        4, enum=("Ignore", "Fail"), doc="What an error means: Fail or Ignore."
    )
    matchPolicy: str | None = field(
        9,
        enum=("Exact", "Equivalent"),
        doc="Exact or Equivalent: whether other versions match too.",
    )
    namespaceSelector: LabelSelector | None = field(5, doc="Which namespaces, by their labels.")
    objectSelector: LabelSelector | None = field(11, doc="Which objects, by their labels.")
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
    matchConditions: list[MatchCondition] = field(
        12, keys=("name",), merge="name", doc="CEL expressions that must all be true."
    )


class MutatingWebhookConfiguration(Kind):
    """Webhooks that may change writes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    webhooks: list[MutatingWebhook] = field(
        2, proto="Webhooks", keys=("name",), merge="name", doc="The webhooks."
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
    parameterNotFoundAction: str | None = field(4, doc="Allow or Deny where there are none.")


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

    operations: list[str] = field(
        1,
        enum=("*", "CREATE", "UPDATE", "DELETE", "CONNECT"),
        doc="CREATE, UPDATE, DELETE, CONNECT or *.",
    )
    rule: Rule = field(2, inline=True)


class ServiceReference(Type):
    """The service behind which a webhook is."""

    namespace: str = field(1, always=True, required=True, doc="Its namespace.")
    name: str = field(2, always=True, required=True, doc="Its name.")
    path: str | None = field(3, doc="The path of the URL.")
    port: int32 | None = field(4, doc="The port of the service.")


class TypeChecking(Type):
    """What checking the types in a policy's expressions found."""

    expressionWarnings: list[ExpressionWarning] = field(1, doc="What was found wrong, one by one.")


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

    policyName: str = field(1, required=True, doc="The policy, by name.")
    paramRef: ParamRef | None = field(2, doc="The parameters.")
    matchResources: MatchResources | None = field(3, doc="Which requests it is bound to.")
    validationActions: list[str] = field(
        4, required=True, enum=("Deny", "Warn", "Audit"), set=True, doc="Deny, Warn or Audit."
    )


class ValidatingAdmissionPolicySpec(Type):
    """What is checked, and in which requests."""

    paramKind: ParamKind | None = field(1, doc="The kind of the parameters.")
    matchConstraints: MatchResources | None = field(2, doc="Which requests it is about.")
    validations: list[Validation] = field(3, doc="What must be true.")
    failurePolicy: str | None = field(
        4, enum=("Ignore", "Fail"), doc="Fail or Ignore: what an error means."
    )
    auditAnnotations: list[AuditAnnotation] = field(5, doc="What is noted in the audit log.")
    matchConditions: list[MatchCondition] = field(
        6, keys=("name",), merge="name", doc="CEL expressions that must all be true."
    )
    variables: list[Variable] = field(
        7, keys=("name",), merge="name", doc="Named expressions that others use."
    )


class ValidatingAdmissionPolicyStatus(Type):
    """What is known of a policy."""

    observedGeneration: int64 = field(1, doc="The generation that this is about.")
    typeChecking: TypeChecking | None = field(2, doc="What was found wrong with its expressions.")
    conditions: list[Condition] = field(3, keys=("type",), doc="What was found out about it.")


class ValidatingWebhook(Type):
    """A server that is asked whether a write may pass."""

    name: str = field(1, always=True, doc="A domain name of its own.", required=True)
    clientConfig: WebhookClientConfig = field(2, doc="Where the webhook is.", required=True)
    rules: list[RuleWithOperations] = field(3, doc="Which requests it is asked about.")
    failurePolicy: str | None = field(
        4, enum=("Ignore", "Fail"), doc="What an error means: Fail or Ignore."
    )
    matchPolicy: str | None = field(
        9,
        enum=("Exact", "Equivalent"),
        doc="Exact or Equivalent: whether other versions match too.",
    )
    namespaceSelector: LabelSelector | None = field(5, doc="Which namespaces, by their labels.")
    objectSelector: LabelSelector | None = field(10, doc="Which objects, by their labels.")
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
    matchConditions: list[MatchCondition] = field(
        11, keys=("name",), merge="name", doc="CEL expressions that must all be true."
    )


class ValidatingWebhookConfiguration(Kind):
    """Webhooks that may refuse writes."""

    metadata: ObjectMeta = field(1, doc="Standard object metadata.")
    webhooks: list[ValidatingWebhook] = field(
        2, proto="Webhooks", keys=("name",), merge="name", doc="The webhooks."
    )


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
    reason: str | None = field(3, doc="Why, in one word for programs.")
    messageExpression: str = field(4, doc="A CEL expression of the message.")


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
