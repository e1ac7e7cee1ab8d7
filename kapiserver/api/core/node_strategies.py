"""Strategies of nodes. Mirrors pkg/registry/core/node/strategy.go."""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.core import warnings
from kapiserver.api.core.validation.nodes import (
    validate_node,
    validate_node_changes,
    validate_node_update,
)
from kapiserver.api.errors import FieldError
from kapiserver.api.strategy import SpecStrategy, StatusStrategy, Strategy
from kapiserver.api.types import Tree


class NodeStrategy(SpecStrategy):
    """The strategy of nodes. Create accepts a status, with which the kubelet registers its node."""

    tracks_generation = False

    def prepare_for_create(self, obj: Tree) -> None:
        """Keep the status, and drop the dynamic kubelet configuration, which no longer exists."""
        for part, name in (("spec", "configSource"), ("status", "config")):
            (obj.get(part) or {}).pop(name, None)

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        if value_at(old, "spec", "configSource") is None:
            (new.get("spec") or {}).pop("configSource", None)

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_node(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_node_update(new, old))

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return list(warnings.warnings_for_node(new))


class NodeStatusStrategy(StatusStrategy):
    """The strategy of status updates of the kubelet. An old kubelet configuration may stay."""

    def prepare_for_update(self, new: Tree, old: Tree) -> None:
        super().prepare_for_update(new, old)
        if value_at(old, "status", "config") is None:
            (new.get("status") or {}).pop("config", None)

    def warnings(self, new: Tree, old: Tree | None) -> list[str]:
        return self.kind.warnings(new, old)


_NODE = NodeStrategy()

STRATEGIES: dict[str, Strategy] = {
    "nodes": _NODE,
    "nodes/status": NodeStatusStrategy(_NODE, validate_status=validate_node_changes),
}
