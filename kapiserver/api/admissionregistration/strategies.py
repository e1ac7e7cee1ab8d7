"""Strategies of the admissionregistration group."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import name_of
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
from kapiserver.api.metadata_validation import any_finalizers
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
_RESERVED = (
    f'names ending with "{STATIC_SUFFIX}" are reserved for static manifest-based configurations '
    "and cannot be managed via the API"
)
_FAST_LENGTH = 8 * 1024
"""The number of characters that take about 20 ms to compile."""


class _AdmissionStrategy(Strategy):
    """The base of the strategies of this group.

    reserves_names  whether new objects with names of static manifests are refused; if not, they
                    cause a warning
    """

    allow_unconditional_update = False

    def __init__(self, *, reserves_names: bool = True) -> None:
        self._reserves_names = reserves_names

    def check_name(self, name: str) -> list[str]:
        messages = super().check_name(name)
        if self._reserves_names and name.endswith(STATIC_SUFFIX):
            messages.append(_RESERVED)
        return messages

    def check_finalizers(self, finalizers: Sequence[str]) -> list[FieldError]:
        return any_finalizers(finalizers)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        is_static = name_of(new).endswith(STATIC_SUFFIX)
        return [f"metadata.name: {_RESERVED}"] if is_static else []


class _ExpressionStrategy(_AdmissionStrategy):
    """The base of strategies of objects with expressions, whose compilation may take long.

    fast_only  whether to raise ValidationTakesLong if validation takes more than about 20 ms
    """

    content = "spec"

    def __init__(self, *, reserves_names: bool = True, fast_only: bool = True) -> None:
        super().__init__(reserves_names=reserves_names)
        self._fast_only = fast_only

    def check_length(self, obj: Tree) -> None:
        """Raise ValidationTakesLong if an object has many characters of expressions."""
        if self._fast_only and text_length(obj.get(self.content)) > _FAST_LENGTH:
            slow = type(self)(reserves_names=self._reserves_names, fast_only=False)
            raise ValidationTakesLong(slow)


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


def make_strategies(*, reserves_names: bool = True) -> dict[str, Strategy]:
    """Return the strategies of the group, by resource and subresource."""
    policy = ValidatingPolicyStrategy(reserves_names=reserves_names)
    webhooks = WebhookConfigurationStrategy(reserves_names=reserves_names)
    return {
        "mutatingadmissionpolicies": MutatingPolicyStrategy(reserves_names=reserves_names),
        "mutatingadmissionpolicybindings": MutatingBindingStrategy(reserves_names=reserves_names),
        "mutatingwebhookconfigurations": webhooks,
        "validatingadmissionpolicies": policy,
        "validatingadmissionpolicies/status": StatusStrategy(
            policy,
            preserved_metadata=STATUS_METADATA,
            validate_status=validate_policy_status_update,
        ),
        "validatingadmissionpolicybindings": ValidatingBindingStrategy(
            reserves_names=reserves_names
        ),
        "validatingwebhookconfigurations": webhooks,
    }


STRATEGIES: dict[str, Strategy] = make_strategies()
