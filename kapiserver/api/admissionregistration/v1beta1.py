"""admissionregistration.k8s.io/v1beta1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.admissionregistration import v1
from kapiserver.api.types import inherit_types, override_field

inherit_types(
    __name__,
    v1,
    without=(
        "Rule",
        "RuleWithOperations",
    ),
)


# The differences of both webhook types.
_FAILURE_POLICY = override_field(
    enum=(),
    doc=(
        "What an error of the call means, such as a timeout: Ignore goes on without the "
        "webhook (the default), Fail rejects the request."
    ),
)
_MATCH_POLICY = override_field(
    enum=(),
    doc=(
        "Whether requests to other versions of a matched resource match: Equivalent converts "
        "and sends them, Exact does not (the default)."
    ),
)
_SIDE_EFFECTS = override_field(
    always=False,
    enum=(),
    required=False,
    doc=(
        "Whether a call changes anything outside of the object: Unknown (the default), None, "
        "Some, or NoneOnDryRun if dry-run calls do not. With Unknown and Some, dry-run "
        "requests are rejected."
    ),
)
_TIMEOUT_SECONDS = override_field(
    doc=(
        "Seconds to wait for the webhook's answer, from 1 to 30. Then failurePolicy applies. "
        "Defaults to 30."
    )
)
_ADMISSION_REVIEW_VERSIONS = override_field(
    always=False,
    required=False,
    doc=(
        "AdmissionReview versions that the webhook accepts, best first. Must include v1 or "
        "v1beta1, or calls fail. Defaults to v1beta1."
    ),
)


class AuditAnnotation(v1.AuditAnnotation):
    key = override_field(required=False)
    valueExpression = override_field(required=False)


class ExpressionWarning(v1.ExpressionWarning):
    fieldRef = override_field(required=False)
    warning = override_field(required=False)


class MatchResources(v1.MatchResources):
    matchPolicy = override_field(enum=())


class MutatingAdmissionPolicySpec(v1.MutatingAdmissionPolicySpec):
    failurePolicy = override_field(enum=())


class MutatingWebhook(v1.MutatingWebhook):
    name = override_field(required=False)
    clientConfig = override_field(required=False)
    failurePolicy = _FAILURE_POLICY
    matchPolicy = _MATCH_POLICY
    sideEffects = _SIDE_EFFECTS
    timeoutSeconds = _TIMEOUT_SECONDS
    admissionReviewVersions = _ADMISSION_REVIEW_VERSIONS


class ServiceReference(v1.ServiceReference):
    namespace = override_field(required=False)
    name = override_field(required=False)


class ValidatingAdmissionPolicySpec(v1.ValidatingAdmissionPolicySpec):
    failurePolicy = override_field(enum=())


class ValidatingWebhook(v1.ValidatingWebhook):
    name = override_field(required=False)
    clientConfig = override_field(required=False)
    failurePolicy = _FAILURE_POLICY
    matchPolicy = _MATCH_POLICY
    sideEffects = _SIDE_EFFECTS
    timeoutSeconds = _TIMEOUT_SECONDS
    admissionReviewVersions = _ADMISSION_REVIEW_VERSIONS


class Validation(v1.Validation):
    expression = override_field(required=False)
