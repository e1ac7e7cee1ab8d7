"""Strategies of the rbac group."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.errors import FieldError
from kapiserver.api.rbac.declarations import BINDING, ROLE
from kapiserver.api.rbac.validation import (
    kept_role,
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_role,
    validate_role_binding,
)
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree


class _PolicyStrategy(Strategy):
    """Named by anything that can stand in a path, `system:node` for one; made by PUT too."""

    allow_create_on_update = True

    def check_name(self, name: str) -> list[str]:
        return names.path_segment(name)


class RoleStrategy(_PolicyStrategy):
    """Permissions in a namespace."""

    declarative_rules = ROLE

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_role(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_role(new))


class ClusterRoleStrategy(_PolicyStrategy):
    """Permissions everywhere."""

    declarative_rules = ROLE

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_cluster_role(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_cluster_role(new))


class RoleBindingStrategy(_PolicyStrategy):
    """Stays with its role."""

    declarative_rules = BINDING

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_role_binding(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return [*validate_role_binding(new), *kept_role(new, old)]


class ClusterRoleBindingStrategy(_PolicyStrategy):
    """Stays with its role."""

    declarative_rules = BINDING

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_cluster_role_binding(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return [*validate_cluster_role_binding(new), *kept_role(new, old)]


STRATEGIES: dict[str, Strategy] = {
    "clusterrolebindings": ClusterRoleBindingStrategy(),
    "clusterroles": ClusterRoleStrategy(),
    "rolebindings": RoleBindingStrategy(),
    "roles": RoleStrategy(),
}
