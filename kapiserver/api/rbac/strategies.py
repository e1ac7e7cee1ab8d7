"""Strategies of the rbac group."""

from __future__ import annotations

from kapiserver.api import names
from kapiserver.api.errors import FieldError
from kapiserver.api.rbac.declarative_rules import BINDING, ROLE
from kapiserver.api.rbac.validation import (
    validate_cluster_role,
    validate_cluster_role_binding,
    validate_role,
    validate_role_binding,
    validate_role_ref_update,
)
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree


class _RBACStrategy(Strategy):
    """The base of the strategies. Any path segment is a valid name, such as `system:node`, and PUT
    may create objects."""

    allow_create_on_update = True

    def check_name(self, name: str) -> list[str]:
        return names.path_segment(name)


class RoleStrategy(_RBACStrategy):
    """The strategy of roles."""

    declarative_rules = ROLE

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_role(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_role(new))


class ClusterRoleStrategy(_RBACStrategy):
    """The strategy of cluster roles."""

    declarative_rules = ROLE

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_cluster_role(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return list(validate_cluster_role(new))


class RoleBindingStrategy(_RBACStrategy):
    """The strategy of role bindings."""

    declarative_rules = BINDING

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_role_binding(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return [*validate_role_binding(new), *validate_role_ref_update(new, old)]


class ClusterRoleBindingStrategy(_RBACStrategy):
    """The strategy of cluster role bindings."""

    declarative_rules = BINDING

    def validate(self, obj: Tree) -> list[FieldError]:
        return list(validate_cluster_role_binding(obj))

    def validate_update(self, new: Tree, old: Tree) -> list[FieldError]:
        return [*validate_cluster_role_binding(new), *validate_role_ref_update(new, old)]


STRATEGIES: dict[str, Strategy] = {
    "clusterrolebindings": ClusterRoleBindingStrategy(),
    "clusterroles": ClusterRoleStrategy(),
    "rolebindings": RoleBindingStrategy(),
    "roles": RoleStrategy(),
}
