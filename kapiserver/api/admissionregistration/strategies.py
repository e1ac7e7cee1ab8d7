"""Strategies of the admissionregistration group."""

from __future__ import annotations

from kapiserver.api.admissionregistration.declarative_rules import VALIDATING_BINDING
from kapiserver.api.admissionregistration.validation.policies import (
    validate_mutating_binding,
    validate_mutating_policy,
    validate_policy_status_update,
    validate_validating_binding,
    validate_validating_policy,
)
from kapiserver.api.admissionregistration.validation.webhooks import (
    validate_webhooks,
    validate_webhooks_update,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.strategy import (
    STATUS_METADATA,
    GenerationStrategy,
    SpecStrategy,
    StatusStrategy,
    Strategy,
)
from kapiserver.api.types import Tree


class _ConditionalStrategy(GenerationStrategy):
    """The base of strategies without unconditional update."""

    allow_unconditional_update = False


class WebhookConfigurationStrategy(_ConditionalStrategy):
    """The strategy of webhook configurations of both kinds."""

    content = "webhooks"

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_webhooks(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_webhooks_update(new, old))


class ValidatingPolicyStrategy(SpecStrategy):
    """The strategy of validating admission policies."""

    allow_unconditional_update = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_validating_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_validating_policy(new, old))


class MutatingPolicyStrategy(_ConditionalStrategy):
    """The strategy of mutating admission policies."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_mutating_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_mutating_policy(new, old))


class ValidatingBindingStrategy(_ConditionalStrategy):
    """The strategy of bindings of validating policies."""

    declarative_rules = VALIDATING_BINDING

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_validating_binding(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_validating_binding(new))


class MutatingBindingStrategy(_ConditionalStrategy):
    """The strategy of bindings of mutating policies."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_mutating_binding(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_mutating_binding(new))


_POLICY = ValidatingPolicyStrategy()

STRATEGIES: dict[str, Strategy] = {
    "mutatingadmissionpolicies": MutatingPolicyStrategy(),
    "mutatingadmissionpolicybindings": MutatingBindingStrategy(),
    "mutatingwebhookconfigurations": WebhookConfigurationStrategy(),
    "validatingadmissionpolicies": _POLICY,
    "validatingadmissionpolicies/status": StatusStrategy(
        _POLICY, preserved_metadata=STATUS_METADATA, validate_status=validate_policy_status_update
    ),
    "validatingadmissionpolicybindings": ValidatingBindingStrategy(),
    "validatingwebhookconfigurations": WebhookConfigurationStrategy(),
}
