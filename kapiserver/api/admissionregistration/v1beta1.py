"""admissionregistration.k8s.io/v1beta1: the types of v1, but for the differences below."""

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
    failurePolicy = override_field(enum=())
    matchPolicy = override_field(enum=())
    sideEffects = override_field(always=False, enum=(), required=False)
    admissionReviewVersions = override_field(always=False, required=False)


class ServiceReference(v1.ServiceReference):
    namespace = override_field(required=False)
    name = override_field(required=False)


class ValidatingAdmissionPolicySpec(v1.ValidatingAdmissionPolicySpec):
    failurePolicy = override_field(enum=())


class ValidatingWebhook(v1.ValidatingWebhook):
    name = override_field(required=False)
    clientConfig = override_field(required=False)
    failurePolicy = override_field(enum=())
    matchPolicy = override_field(enum=())
    sideEffects = override_field(always=False, enum=(), required=False)
    admissionReviewVersions = override_field(always=False, required=False)


class Validation(v1.Validation):
    expression = override_field(required=False)
