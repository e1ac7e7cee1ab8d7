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

NO_WEBHOOKS = "this server does not call admission webhooks yet: the configuration has no effect"
NO_POLICIES = "this server does not evaluate admission policies yet: the object has no effect"


class _PolicyStrategy(GenerationStrategy):
    """The base of strategies of policies and bindings."""

    allow_unconditional_update = False

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return [NO_POLICIES]


class WebhookConfigurationStrategy(GenerationStrategy):
    """The strategy of webhook configurations of both kinds."""

    allow_unconditional_update = False
    content = "webhooks"

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return [NO_WEBHOOKS]

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_webhooks(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_webhooks_update(new, old))


class ValidatingPolicyStrategy(SpecStrategy):
    """The strategy of validating admission policies."""

    allow_unconditional_update = False

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return [NO_POLICIES]

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_validating_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_validating_policy(new, old))


class MutatingPolicyStrategy(_PolicyStrategy):
    """The strategy of mutating admission policies."""

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_mutating_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_mutating_policy(new, old))


class ValidatingBindingStrategy(_PolicyStrategy):
    """The strategy of bindings of validating policies."""

    declarative_rules = VALIDATING_BINDING

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_validating_binding(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_validating_binding(new))


class MutatingBindingStrategy(_PolicyStrategy):
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
