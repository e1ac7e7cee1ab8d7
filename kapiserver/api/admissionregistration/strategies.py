"""Strategies of the admissionregistration group."""

from __future__ import annotations

from kapiserver.api.admissionregistration.declarations import VALIDATING_BINDING
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
    """Whoever overwrites says what version."""

    allow_unconditional_update = False


class WebhookConfigurationStrategy(_ConditionalStrategy):
    """Webhooks of either kind."""

    content = "webhooks"

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_webhooks(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_webhooks_update(new, old))


class ValidatingPolicyStrategy(SpecStrategy):
    """Expressions that refuse writes."""

    allow_unconditional_update = False

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_validating_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_validating_policy(new, old))


class MutatingPolicyStrategy(_ConditionalStrategy):
    """Expressions that change writes."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_mutating_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_mutating_policy(new, old))


class ValidatingBindingStrategy(_ConditionalStrategy):
    """Puts a validating policy to work."""

    declarative_rules = VALIDATING_BINDING

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_validating_binding(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_validating_binding(new))


class MutatingBindingStrategy(_ConditionalStrategy):
    """Puts a mutating policy to work."""

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
