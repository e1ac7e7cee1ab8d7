"""Role-based access control: authorizes users by the roles bound to them.

Mirrors plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kapiserver.api.go_format import join_errors
from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.rbac.index import RbacIndex, RoleKey
from kapiserver.apiserver.authorization.rbac.rules import resource_request
from kapiserver.apiserver.authorizer import (
    Decision,
    ManagedAuthorizer,
    Rules,
    Verdict,
)
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User

_NO_OPINION = Decision(verdict=Verdict.NO_OPINION)
_GROUP = "rbac.authorization.k8s.io"
_RESOURCES = {"Role": "role", "ClusterRole": "clusterrole"}


class RbacAuthorizer(ManagedAuthorizer):
    """Authorizes by the roles and bindings of an index. It never denies."""

    def __init__(self, index: RbacIndex) -> None:
        self.index = index

    async def start(self) -> None:
        """Subscribe to roles and bindings; return when all are known. Raises StorageError."""
        await self.index.start()

    async def stop(self) -> None:
        """Cancel the subscriptions. Idempotent."""
        self.index.stop()

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Allow the request if a bound role does. Otherwise have no opinion; the reason then names
        the bound roles that do not exist."""
        missing: list[RoleKey] = []
        if info.is_resource_request:
            request, namespace = resource_request(info), info.namespace
        else:
            request, namespace = None, ""
        for grant in self.index.grants(user, namespace):
            rules = self.index.rules(grant.role)
            if rules is None:
                missing.append(grant.role)
            elif rules.allows_resource(request) if request is not None else rules.allows(info):
                return grant.allowed
        if not missing:
            return _NO_OPINION
        return Decision(verdict=Verdict.NO_OPINION, reason=f"RBAC: {_not_found(missing)}")

    async def rules_for(self, user: User, namespace: str) -> Rules:
        """Return the rules of all roles that are bound to a user in a namespace and in the
        cluster."""
        trees, missing = self.policy_rules(user, namespace)
        return Rules(
            resources=[_resource_rule(tree) for tree in trees if tree.get("resources")],
            paths=[_path_rule(tree) for tree in trees if tree.get("nonResourceURLs")],
            incomplete=bool(missing),
            error=_not_found(missing) if missing else "",
        )

    def policy_rules(self, user: User, namespace: str) -> tuple[list[Tree], list[RoleKey]]:
        """Return the PolicyRules of all roles that are bound to a user in a namespace and in the
        cluster, and the bound roles that do not exist."""
        trees: list[Tree] = []
        missing: list[RoleKey] = []
        for grant in self.index.grants(user, namespace):
            rules = self.index.rules(grant.role)
            if rules is None:
                missing.append(grant.role)
            else:
                trees.extend(rules.trees)
        return trees, missing


def _resource_rule(tree: Tree) -> Mapping[str, Sequence[str]]:
    fields = ("verbs", "apiGroups", "resources", "resourceNames")
    return {field: tree[field] for field in fields if tree.get(field)}


def _path_rule(tree: Tree) -> Mapping[str, Sequence[str]]:
    return {field: tree[field] for field in ("verbs", "nonResourceURLs")}


def _not_found(roles: Sequence[RoleKey]) -> str:
    return join_errors(not_found_error(role) for role in roles)


def not_found_error(role: RoleKey) -> str:
    """Return kube-apiserver's message for a binding whose role does not exist."""
    resource = _RESOURCES.get(role.kind)
    if resource is None:
        return f'unsupported role reference kind: "{role.kind}"'
    return f'{resource}.{_GROUP} "{role.name}" not found'
