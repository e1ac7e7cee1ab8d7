"""Strategies of the node group."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.core.warnings import DEPRECATED_NODE_LABELS
from kapiserver.api.errors import FieldError
from kapiserver.api.node.declarative_rules import RUNTIME_CLASS
from kapiserver.api.node.validation import validate_runtime_class
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree


class RuntimeClassStrategy(Strategy):
    """The strategy of runtime classes. PUT may create them."""

    allow_create_on_update = True
    allow_unconditional_update = False
    declarative_rules = RUNTIME_CLASS

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_runtime_class(obj))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        labels = value_at(new, "scheduling", "nodeSelector") or ()
        return [
            f"scheduling.nodeSelector: {DEPRECATED_NODE_LABELS[label]}"
            for label in labels
            if label in DEPRECATED_NODE_LABELS
        ]


STRATEGIES: dict[str, Strategy] = {"runtimeclasses": RuntimeClassStrategy()}
