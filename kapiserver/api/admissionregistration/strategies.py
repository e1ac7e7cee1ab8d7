"""Strategies of the admissionregistration group."""

from __future__ import annotations

from kapiserver.api.admissionregistration.declarative_rules import VALIDATING_BINDING
from kapiserver.api.admissionregistration.validation.expressions import text_length
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
    ValidationTakesLong,
)
from kapiserver.api.types import Tree

STATIC_SUFFIX = ".static.k8s.io"
"""The end of the names of objects in manifests, which objects of the API must not have."""
_FAST_LENGTH = 8 * 1024
"""Characters that take about 20 ms to compile."""


class _AdmissionStrategy(Strategy):
    """The base of the strategies of this group: reserves the names of static manifests."""

    allow_unconditional_update = False

    def check_name(self, name: str) -> list[str]:
        messages = super().check_name(name)
        if name.endswith(STATIC_SUFFIX):
            messages.append(
                f'names ending with "{STATIC_SUFFIX}" are reserved for static manifest-based '
                "configurations and cannot be managed via the API"
            )
        return messages


class _ExpressionStrategy(_AdmissionStrategy):
    """The base of strategies of objects with expressions, whose compilation may take long.

    fast_only  raises ValidationTakesLong if validation takes more than about 20 ms
    """

    content = "spec"

    def __init__(self, *, fast_only: bool = True) -> None:
        self._fast_only = fast_only

    def check_length(self, obj: Tree) -> None:
        """Raise ValidationTakesLong if an object has many characters of expressions."""
        if self._fast_only and text_length(obj.get(self.content)) > _FAST_LENGTH:
            raise ValidationTakesLong(type(self)(fast_only=False))


class WebhookConfigurationStrategy(_ExpressionStrategy, GenerationStrategy):
    """The strategy of webhook configurations of both kinds."""

    content = "webhooks"

    def validate(self, obj: Tree) -> list[FieldError]:
        self.check_length(obj)
        return list(validate_webhooks(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        self.check_length(new)
        return list(validate_webhooks_update(new, old))


class ValidatingPolicyStrategy(_ExpressionStrategy, SpecStrategy):
    """The strategy of validating admission policies."""

    def validate(self, obj: Tree) -> list[FieldError]:
        self.check_length(obj)
        return list(validate_validating_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        self.check_length(new)
        return list(validate_validating_policy(new, old))


class MutatingPolicyStrategy(_ExpressionStrategy, GenerationStrategy):
    """The strategy of mutating admission policies."""

    def validate(self, obj: Tree) -> list[FieldError]:
        self.check_length(obj)
        return list(validate_mutating_policy(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        self.check_length(new)
        return list(validate_mutating_policy(new, old))


class ValidatingBindingStrategy(_AdmissionStrategy, GenerationStrategy):
    """The strategy of bindings of validating policies."""

    declarative_rules = VALIDATING_BINDING

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_validating_binding(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_validating_binding(new))


class MutatingBindingStrategy(_AdmissionStrategy, GenerationStrategy):
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
