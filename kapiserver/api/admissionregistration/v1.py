"""admissionregistration.k8s.io/v1: configurations of admission webhooks and policies."""

from __future__ import annotations

from kapiserver.api.meta.v1 import Condition, LabelSelector, ObjectMeta
from kapiserver.api.types import Kind, Type, field, int32, int64


class ApplyConfiguration(Type):
    """A mutation by server-side apply of the object that a CEL expression returns."""

    expression: str = field(
        1,
        doc=(
            "CEL expression that returns the configuration to apply, as in Object{spec: "
            "Object.spec{replicas: 3}}. It cannot change values of atomic structs, maps or lists."
        ),
    )


class AuditAnnotation(Type):
    """An annotation that a policy adds to the audit event of a request."""

    key: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Suffix of the annotation's key, which is <policy name>/<key>. Unique in the policy; "
            "together a qualified name."
        ),
    )
    valueExpression: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "CEL expression of the annotation's value, at most 5 KiB long. A string is recorded, "
            "cut to 10 KiB; null or an empty string omits the annotation."
        ),
    )


class ExpressionWarning(Type):
    """A type error that the server found in one expression of a policy."""

    fieldRef: str = field(
        2,
        always=True,
        required=True,
        doc="Path of the field with the expression, such as spec.validations[0].expression.",
    )
    warning: str = field(
        3,
        always=True,
        required=True,
        doc=(
            "The type errors, for people, one paragraph per type that the expression was checked "
            "against."
        ),
    )


class JSONPatch(Type):
    """A mutation by a JSON patch that a CEL expression returns."""

    expression: str = field(
        1,
        doc=(
            'CEL expression that returns a list of patches, as in [JSONPatch{op: "replace", path: '
            '"/spec/replicas", value: 3}].'
        ),
    )


class MatchCondition(Type):
    """A CEL expression that must be true for a request to reach a webhook or policy."""

    name: str = field(
        1,
        always=True,
        required=True,
        doc=(
            "Name of the condition for logs and audit, a qualified name such as exclude-leases. "
            "Unique in its list."
        ),
    )
    expression: str = field(
        2,
        always=True,
        required=True,
        doc=(
            "CEL expression of type bool over object, oldObject, request, namespaceObject and "
            "authorizer; in policies with paramKind also params."
        ),
    )


class MatchResources(Type):
    """Which requests a policy or a binding applies to. All parts of it must match."""

    atomic = True

    namespaceSelector: LabelSelector | None = field(
        1,
        doc=(
            "Matches objects by the labels of their namespace, and Namespace objects by their "
            "own. Other cluster-scoped objects always match. Defaults to all."
        ),
    )
    objectSelector: LabelSelector | None = field(
        2,
        doc=(
            "Matches if the labels of the object, or of the old object, fit. Users can set "
            "labels, so use it for opt-in only. Defaults to all."
        ),
    )
    resourceRules: list[NamedRuleWithOperations] = field(
        3,
        doc=(
            "Operations and resources that match; one matching rule is enough. Policies need at "
            "least one; in a binding, none means all."
        ),
    )
    excludeResourceRules: list[NamedRuleWithOperations] = field(
        4, doc="Operations and resources that do not match, even if resourceRules match them."
    )
    matchPolicy: str | None = field(
        7,
        enum=("Exact", "Equivalent"),
        doc=(
            "Whether requests to other versions of a matched resource match: Equivalent converts "
            "and matches them (the default), Exact does not."
        ),
    )


class MutatingAdmissionPolicy(Kind):
    """CEL mutations that the API server applies to objects as they are written. Takes effect
    through a MutatingAdmissionPolicyBinding."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: MutatingAdmissionPolicySpec = field(2, doc="What the policy changes, in which requests.")


class MutatingAdmissionPolicyBinding(Kind):
    """Puts a MutatingAdmissionPolicy into effect, with parameters and for the requests that it
    selects."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: MutatingAdmissionPolicyBindingSpec = field(
        2, doc="The policy, its parameters and the requests that it is put into effect for."
    )


class MutatingAdmissionPolicyBindingSpec(Type):
    """The policy, its parameters and the requests of a MutatingAdmissionPolicyBinding."""

    policyName: str = field(
        1,
        doc=(
            "Name of the MutatingAdmissionPolicy. A binding whose policy does not exist has no "
            "effect. Required."
        ),
    )
    paramRef: ParamRef | None = field(
        2,
        doc=(
            "Objects that the policy's expressions see as params. Set it if the policy has a "
            "paramKind. If unset, params is null."
        ),
    )
    matchResources: MatchResources | None = field(
        3,
        doc=(
            "Narrows the requests: they must match the policy's matchConstraints and this. Unset "
            "narrows nothing."
        ),
    )


class MutatingAdmissionPolicySpec(Type):
    """The mutations of a policy and the requests that they apply to."""

    paramKind: ParamKind | None = field(
        1,
        doc=(
            "Kind of the parameter objects. If unset, the policy has no parameters and params "
            "must not be used."
        ),
    )
    matchConstraints: MatchResources | None = field(
        2,
        doc=(
            "Which requests the policy applies to; required. CREATE, UPDATE, CONNECT and * are "
            "the allowed operations."
        ),
    )
    variables: list[Variable] = field(
        3,
        doc=(
            "Expressions that later variables and mutations use as variables.<name>. A variable "
            "may use only those before it."
        ),
    )
    mutations: list[Mutation] = field(
        4,
        doc=(
            "Changes of the object, applied in order, each to the result of the one before. At "
            "least one."
        ),
    )
    failurePolicy: str | None = field(
        5,
        enum=("Ignore", "Fail"),
        doc=(
            "What an error in the policy means, such as a failing expression or a missing "
            "parameter: Fail rejects the request (the default), Ignore skips the policy."
        ),
    )
    matchConditions: list[MatchCondition] = field(
        6,
        keys=("name",),
        merge="name",
        doc=(
            "CEL expressions that must all be true for the policy to apply, at most 64. They "
            "cannot use variables."
        ),
    )
    reinvocationPolicy: str = field(
        7,
        enum=("Never", "IfNeeded"),
        doc=(
            "Whether the policy is evaluated again if a later admission plugin changes the "
            "object: Never or IfNeeded. Required."
        ),
    )


class MutatingWebhook(Type):
    """A webhook that may change objects as they are written."""

    name: str = field(
        1,
        always=True,
        doc=(
            "Full domain name of the webhook, of at least three segments, such as "
            "imagepolicy.example.com. Unique in the configuration."
        ),
        required=True,
    )
    clientConfig: WebhookClientConfig = field(
        2, doc="Address and trust roots of the webhook.", required=True
    )
    rules: list[RuleWithOperations] = field(
        3,
        doc=(
            "Operations and resources for which the webhook is called; one matching rule is "
            "enough. It is never called for webhook configurations and admission policies."
        ),
    )
    failurePolicy: str | None = field(
        4,
        enum=("Ignore", "Fail"),
        doc=(
            "What an error of the call means, such as a timeout: Fail rejects the request (the "
            "default), Ignore goes on without the webhook."
        ),
    )
    matchPolicy: str | None = field(
        9,
        enum=("Exact", "Equivalent"),
        doc=(
            "Whether requests to other versions of a matched resource match: Equivalent converts "
            "and sends them (the default), Exact does not."
        ),
    )
    namespaceSelector: LabelSelector | None = field(
        5,
        doc=(
            "Calls the webhook only if the labels of the object's namespace match; for a "
            "Namespace, its own. Other cluster-scoped objects always match. Defaults to all."
        ),
    )
    objectSelector: LabelSelector | None = field(
        11,
        doc=(
            "Calls the webhook only if the labels of the object or of the old object match. Users "
            "can set labels, so use it for opt-in only. Defaults to all."
        ),
    )
    sideEffects: str | None = field(
        6,
        always=True,
        enum=("Unknown", "None", "Some", "NoneOnDryRun"),
        doc=(
            "Whether a call changes anything outside of the object: None, or NoneOnDryRun if "
            "dry-run calls do not. Other values are no longer accepted."
        ),
        required=True,
    )
    timeoutSeconds: int32 | None = field(
        7,
        doc=(
            "Seconds to wait for the webhook's answer, from 1 to 30. Then failurePolicy applies. "
            "Defaults to 10."
        ),
    )
    admissionReviewVersions: list[str] = field(
        8,
        always=True,
        doc=(
            "AdmissionReview versions that the webhook accepts, best first. Must include v1 or "
            "v1beta1, or calls fail."
        ),
        required=True,
    )
    reinvocationPolicy: str | None = field(
        10,
        enum=("Never", "IfNeeded"),
        doc=(
            "Whether the webhook is called again if a later webhook changes the object: Never "
            "(the default), or IfNeeded at most once more. It must be idempotent then."
        ),
    )
    matchConditions: list[MatchCondition] = field(
        12,
        keys=("name",),
        merge="name",
        doc=(
            "CEL expressions that must all be true for the webhook to be called, at most 64. "
            "Evaluated after rules and selectors."
        ),
    )


class MutatingWebhookConfiguration(Kind):
    """Webhooks that may change objects as they are written."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    webhooks: list[MutatingWebhook] = field(
        2,
        proto="Webhooks",
        keys=("name",),
        merge="name",
        doc=(
            "The webhooks of the configuration, each with a name of its own. They are called one "
            "after another."
        ),
    )


class Mutation(Type):
    """One change that a policy makes to the object."""

    patchType: str = field(
        2,
        always=True,
        enum=("ApplyConfiguration", "JSONPatch"),
        required=True,
        doc=(
            "Form of the mutation: ApplyConfiguration or JSONPatch. The field of that name must "
            "be set, the other must not."
        ),
    )
    applyConfiguration: ApplyConfiguration | None = field(
        3,
        doc=(
            "A change by server-side apply. Required if patchType is ApplyConfiguration, "
            "otherwise forbidden."
        ),
    )
    jsonPatch: JSONPatch | None = field(
        4, doc="A change by JSON patch. Required if patchType is JSONPatch, otherwise forbidden."
    )


class NamedRuleWithOperations(Type):
    """Operations and resources to match, optionally limited to objects by name."""

    atomic = True

    resourceNames: list[str] = field(
        1, doc="Names of the objects that match. Empty matches objects of any name."
    )
    ruleWithOperations: RuleWithOperations = field(
        2,
        inline=True,
        doc="Operations and resources that match; its fields appear directly in this object.",
    )


class ParamKind(Type):
    """The kind of the objects that parameterize a policy."""

    atomic = True

    apiVersion: str = field(
        1, doc="API version of the parameter kind, such as v1 or rules.example.com/v1. Required."
    )
    kind: str = field(
        2, doc="Kind of the parameter objects, such as ConfigMap or a custom kind. Required."
    )


class ParamRef(Type):
    """The parameter objects of a binding: one by name, or all that a selector finds. The policy is
    evaluated once for each."""

    atomic = True

    name: str = field(
        1, doc="Name of the parameter object. Excludes selector; one of the two is required."
    )
    namespace: str = field(
        2,
        doc=(
            "Namespace of the parameter objects. Must be empty for cluster-scoped kinds. Defaults "
            "to the namespace of the object under admission."
        ),
    )
    selector: LabelSelector | None = field(
        3,
        doc=(
            "Labels of the parameter objects; an empty selector finds all in the namespace. "
            "Excludes name."
        ),
    )
    parameterNotFoundAction: str | None = field(
        4,
        doc=(
            "What happens if no parameter object exists: Allow lets the request pass, Deny "
            "applies the failurePolicy. Required."
        ),
    )


class Rule(Type):
    """Resources by API group, version, name and scope."""

    apiGroups: list[str] = field(
        1,
        doc=(
            'API groups that match; an empty string is the core group. "*" matches all groups and '
            "must stand alone."
        ),
    )
    apiVersions: list[str] = field(
        2, doc='API versions that match, such as v1. "*" matches all versions and must stand alone.'
    )
    resources: list[str] = field(
        3,
        doc=(
            'Resources that match: pods, pods/log, "*" for all resources, pods/* for all '
            "subresources of pods, */scale for scale of all, */* for everything."
        ),
    )
    scope: str | None = field(
        4,
        enum=("Cluster", "Namespaced", "*"),
        doc=(
            'Scope of the resources that match: Cluster, Namespaced, or "*" for both (the '
            "default). A subresource has the scope of its parent."
        ),
    )


class RuleWithOperations(Type):
    """Operations and the resources on which they match."""

    operations: list[str] = field(
        1,
        enum=("*", "CREATE", "UPDATE", "DELETE", "CONNECT"),
        doc=(
            'Operations that match: CREATE, UPDATE, DELETE, CONNECT, or "*" for all, which must '
            "stand alone."
        ),
    )
    rule: Rule = field(
        2, inline=True, doc="Resources that match; its fields appear directly in this object."
    )


class ServiceReference(Type):
    """The Service in front of a webhook."""

    namespace: str = field(1, always=True, required=True, doc="Namespace of the Service. Required.")
    name: str = field(2, always=True, required=True, doc="Name of the Service. Required.")
    path: str | None = field(
        3, doc="URL path to send requests to, starting with a slash; empty means the root."
    )
    port: int32 | None = field(
        4,
        doc="Port of the Service that the webhook is served on, from 1 to 65535. Defaults to 443.",
    )


class TypeChecking(Type):
    """What type checking of a policy's expressions found."""

    expressionWarnings: list[ExpressionWarning] = field(
        1, doc="The type errors, one entry for each expression that has any."
    )


class ValidatingAdmissionPolicy(Kind):
    """CEL validations that the API server applies to requests. Takes effect through a
    ValidatingAdmissionPolicyBinding."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: ValidatingAdmissionPolicySpec = field(2, doc="What the policy checks, in which requests.")
    status: ValidatingAdmissionPolicyStatus = field(
        3, doc="Warnings and conditions that the server and controllers report about the policy."
    )


class ValidatingAdmissionPolicyBinding(Kind):
    """Puts a ValidatingAdmissionPolicy into effect, with parameters and for the requests that it
    selects."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    spec: ValidatingAdmissionPolicyBindingSpec = field(
        2,
        required=True,
        doc=(
            "The policy, its parameters, the requests that it is put into effect for, and what a "
            "failed validation means."
        ),
    )


class ValidatingAdmissionPolicyBindingSpec(Type):
    """The policy, its parameters, the requests and the actions of a
    ValidatingAdmissionPolicyBinding."""

    policyName: str = field(
        1,
        required=True,
        doc=(
            "Name of the ValidatingAdmissionPolicy. A binding whose policy does not exist has no "
            "effect."
        ),
    )
    paramRef: ParamRef | None = field(
        2,
        doc=(
            "Objects that the policy's expressions see as params. Set it if the policy has a "
            "paramKind. If unset, params is null."
        ),
    )
    matchResources: MatchResources | None = field(
        3,
        doc=(
            "Narrows the requests: they must match the policy's matchConstraints and this. Unset "
            "narrows nothing."
        ),
    )
    validationActions: list[str] = field(
        4,
        required=True,
        enum=("Deny", "Warn", "Audit"),
        set=True,
        doc=(
            "What a failed validation does: Deny rejects the request, Warn adds a warning to the "
            "response, Audit adds an audit annotation. Deny and Warn exclude each other."
        ),
    )


class ValidatingAdmissionPolicySpec(Type):
    """The validations of a policy and the requests that they apply to."""

    paramKind: ParamKind | None = field(
        1,
        doc=(
            "Kind of the parameter objects. If unset, the policy has no parameters and params "
            "must not be used."
        ),
    )
    matchConstraints: MatchResources | None = field(
        2,
        doc=(
            "Which requests the policy applies to; required. resourceRules needs at least one rule."
        ),
    )
    validations: list[Validation] = field(
        3,
        doc=(
            "CEL expressions that must be true for a request to pass. Required unless "
            "auditAnnotations has an entry."
        ),
    )
    failurePolicy: str | None = field(
        4,
        enum=("Ignore", "Fail"),
        doc=(
            "What an error in the policy means, such as a failing expression or a missing "
            "parameter: Fail rejects the request (the default), Ignore skips the policy."
        ),
    )
    auditAnnotations: list[AuditAnnotation] = field(
        5,
        doc=(
            "Annotations for the audit event of the request, at most 20. Required unless "
            "validations has an entry."
        ),
    )
    matchConditions: list[MatchCondition] = field(
        6,
        keys=("name",),
        merge="name",
        doc=(
            "CEL expressions that must all be true for the policy to apply, at most 64. They "
            "cannot use variables."
        ),
    )
    variables: list[Variable] = field(
        7,
        keys=("name",),
        merge="name",
        doc=(
            "Expressions that later variables, validations and annotations use as "
            "variables.<name>. A variable may use only those before it."
        ),
    )


class ValidatingAdmissionPolicyStatus(Type):
    """The observed state of a ValidatingAdmissionPolicy."""

    observedGeneration: int64 = field(
        1, doc="metadata.generation of the policy that this status was computed for."
    )
    typeChecking: TypeChecking | None = field(
        2, doc="Result of checking the types in the expressions; set once the check is complete."
    )
    conditions: list[Condition] = field(
        3, keys=("type",), doc="Aspects of the policy's current state, at most one per type."
    )


class ValidatingWebhook(Type):
    """A webhook that may reject requests, but not change objects."""

    name: str = field(
        1,
        always=True,
        doc=(
            "Full domain name of the webhook, of at least three segments, such as "
            "imagepolicy.example.com. Unique in the configuration."
        ),
        required=True,
    )
    clientConfig: WebhookClientConfig = field(
        2, doc="Address and trust roots of the webhook.", required=True
    )
    rules: list[RuleWithOperations] = field(
        3,
        doc=(
            "Operations and resources for which the webhook is called; one matching rule is "
            "enough. It is never called for webhook configurations and admission policies."
        ),
    )
    failurePolicy: str | None = field(
        4,
        enum=("Ignore", "Fail"),
        doc=(
            "What an error of the call means, such as a timeout: Fail rejects the request (the "
            "default), Ignore goes on without the webhook."
        ),
    )
    matchPolicy: str | None = field(
        9,
        enum=("Exact", "Equivalent"),
        doc=(
            "Whether requests to other versions of a matched resource match: Equivalent converts "
            "and sends them (the default), Exact does not."
        ),
    )
    namespaceSelector: LabelSelector | None = field(
        5,
        doc=(
            "Calls the webhook only if the labels of the object's namespace match; for a "
            "Namespace, its own. Other cluster-scoped objects always match. Defaults to all."
        ),
    )
    objectSelector: LabelSelector | None = field(
        10,
        doc=(
            "Calls the webhook only if the labels of the object or of the old object match. Users "
            "can set labels, so use it for opt-in only. Defaults to all."
        ),
    )
    sideEffects: str | None = field(
        6,
        always=True,
        enum=("Unknown", "None", "Some", "NoneOnDryRun"),
        doc=(
            "Whether a call changes anything outside of the object: None, or NoneOnDryRun if "
            "dry-run calls do not. Other values are no longer accepted."
        ),
        required=True,
    )
    timeoutSeconds: int32 | None = field(
        7,
        doc=(
            "Seconds to wait for the webhook's answer, from 1 to 30. Then failurePolicy applies. "
            "Defaults to 10."
        ),
    )
    admissionReviewVersions: list[str] = field(
        8,
        always=True,
        doc=(
            "AdmissionReview versions that the webhook accepts, best first. Must include v1 or "
            "v1beta1, or calls fail."
        ),
        required=True,
    )
    matchConditions: list[MatchCondition] = field(
        11,
        keys=("name",),
        merge="name",
        doc=(
            "CEL expressions that must all be true for the webhook to be called, at most 64. "
            "Evaluated after rules and selectors."
        ),
    )


class ValidatingWebhookConfiguration(Kind):
    """Webhooks that may reject requests."""

    metadata: ObjectMeta = field(
        1, doc="Standard object's metadata, such as its name, labels and owners."
    )
    webhooks: list[ValidatingWebhook] = field(
        2,
        proto="Webhooks",
        keys=("name",),
        merge="name",
        doc=(
            "The webhooks of the configuration, each with a name of its own. They are called in "
            "parallel; one rejection is enough."
        ),
    )


class Validation(Type):
    """A CEL expression that must be true for a request to pass, and the error if it is not."""

    expression: str = field(
        1,
        proto="Expression",
        always=True,
        doc=(
            "CEL expression of type bool over object, oldObject, request, params, "
            "namespaceObject, variables and authorizer. False is a failed validation."
        ),
        required=True,
    )
    message: str = field(
        2,
        doc=(
            "Text of the error if the expression is false, without line breaks. Defaults to "
            '"failed expression: <expression>".'
        ),
    )
    reason: str | None = field(
        3,
        doc=(
            "Reason of the error that clients receive: Forbidden, Invalid or "
            "RequestEntityTooLarge. Defaults to Invalid."
        ),
    )
    messageExpression: str = field(
        4,
        doc=(
            "CEL expression of type string for the error text; it takes precedence over message. "
            "If it fails, message is used."
        ),
    )


class Variable(Type):
    """A CEL expression with a name, evaluated at most once per request."""

    atomic = True

    name: str = field(
        1,
        proto="Name",
        always=True,
        doc=(
            "Name of the variable, a CEL identifier that is unique in the policy. Expressions "
            "refer to it as variables.<name>."
        ),
        required=True,
    )
    expression: str = field(
        2,
        proto="Expression",
        always=True,
        doc=(
            "CEL expression of the variable's value, which may have any type. It sees what "
            "validations see, and earlier variables."
        ),
        required=True,
    )


class WebhookClientConfig(Type):
    """How to reach a webhook: by url or by service, exactly one of them."""

    url: str | None = field(
        3, doc="HTTPS URL of the webhook, without user, query and fragment. Excludes service."
    )
    service: ServiceReference | None = field(
        1,
        doc=(
            "The Service in front of the webhook; use it if the webhook runs in the cluster. "
            "Excludes url."
        ),
    )
    caBundle: bytes = field(
        2,
        doc=(
            "PEM-encoded CA certificates to verify the webhook's certificate with. Defaults to "
            "the trust roots of the API server's system."
        ),
    )
