"""admissionregistration.k8s.io/v1alpha1: the types of v1; the differences are below."""

from __future__ import annotations

from kapiserver.api.admissionregistration import v1
from kapiserver.api.types import inherit_types, override_field

inherit_types(
    __name__,
    v1,
    without=(
        "MutatingWebhook",
        "MutatingWebhookConfiguration",
        "Rule",
        "RuleWithOperations",
        "ServiceReference",
        "ValidatingWebhook",
        "ValidatingWebhookConfiguration",
        "WebhookClientConfig",
    ),
)


class AuditAnnotation(v1.AuditAnnotation):
    key = override_field(required=False)
    valueExpression = override_field(required=False)


class ExpressionWarning(v1.ExpressionWarning):
    fieldRef = override_field(required=False)
    warning = override_field(required=False)


class ParamRef(v1.ParamRef):
    parameterNotFoundAction = override_field(
        enum=("Allow", "Deny"),
        doc=(
            "What happens if no parameter object exists: Allow lets the request pass, Deny (the "
            "default) applies the failurePolicy."
        ),
    )


class Validation(v1.Validation):
    expression = override_field(required=False)


class Variable(v1.Variable):
    atomic = False
