"""An index of roles and role bindings by subject, kept up to date by informers.

With the embedded store, a change takes effect before its write is acknowledged; with etcd, when its
event arrives, as in kube-apiserver. Knows no request.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.rbac.rules import CompiledRules
from kapiserver.apiserver.authorizer import Decision, Verdict
from kapiserver.apiserver.user import SERVICE_ACCOUNT_PREFIX, User
from kapiserver.storage.cache.entry import Entry
from kapiserver.storage.objects.informer import InformerSubscription, ObjectChange
from kapiserver.storage.objects.store_registry import StoreRegistry

RBAC = GroupVersion("rbac.authorization.k8s.io", "v1")

MANY_GROUPS = 1000
"""Access reviews may name very many groups. Those without a binding are then left out first."""


class RoleKey(NamedTuple):
    """Names a Role, or a ClusterRole with the namespace ""."""

    kind: str
    namespace: str
    name: str


class Grant(NamedTuple):
    """The role that a binding gives to one subject, and the decision if the role allows."""

    role: RoleKey
    allowed: Decision


_Subject: TypeAlias = tuple[str, str, str]
"""`User` or `Group`, the namespace of the binding ("" for a ClusterRoleBinding), and the name. A
service account is a user."""


class RbacIndex:
    """The roles of a server, and the grants of its bindings by subject."""

    def __init__(self, stores: StoreRegistry) -> None:
        self._stores = stores
        self._roles: dict[RoleKey, Entry] = {}
        self._compiled_rules: dict[RoleKey, CompiledRules] = {}
        """The rules of decoded roles; a role is decoded when it is first needed."""
        self._grants: dict[_Subject, dict[str, Grant]] = {}
        """The grants, by subject, then by the path of the binding."""
        self._subjects: dict[str, Sequence[_Subject]] = {}
        """The subjects of a binding, by its path."""
        self._subscriptions: list[InformerSubscription] = []

    async def start(self) -> None:
        """Subscribe to roles and bindings; return when the index holds all of them. Raises
        StorageError."""
        handlers = {
            "roles": self._on_roles,
            "clusterroles": self._on_roles,
            "rolebindings": self._on_bindings,
            "clusterrolebindings": self._on_bindings,
        }
        for resource, handler in handlers.items():
            informer = self._stores.by_name(RBAC, resource).informer
            self._subscriptions.append(informer.subscribe_batches(handler))
        for subscription in self._subscriptions:
            await subscription.wait_synced()

    def stop(self) -> None:
        """Cancel the subscriptions. Idempotent."""
        for subscription in self._subscriptions:
            subscription.cancel()
        self._subscriptions.clear()

    def rules(self, role: RoleKey) -> CompiledRules | None:
        """Return the rules of a role; None if there is no such role. Raises Unreadable."""
        rules = self._compiled_rules.get(role)
        if rules is None and (entry := self._roles.get(role)) is not None:
            rules = CompiledRules(entry.tree().get("rules") or ())
            self._compiled_rules[role] = rules
        return rules

    def grants(self, user: User, namespace: str) -> Sequence[Grant]:
        """Return the grants of cluster role bindings to a user and its groups, then those of the
        bindings in the namespace, unless it is empty."""
        grants: list[Grant] = []
        groups = user.groups
        if len(groups) > MANY_GROUPS:
            bound = {name for kind, _, name in self._grants if kind == "Group"}
            groups = tuple(group for group in groups if group in bound)
        for scope in ("", namespace) if namespace else ("",):
            if bindings := self._grants.get(("User", scope, user.name)):
                grants.extend(bindings.values())
            for group in groups:
                if bindings := self._grants.get(("Group", scope, group)):
                    grants.extend(bindings.values())
        return grants

    def _on_roles(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            namespace, name = change.last.key
            role = RoleKey("Role" if namespace else "ClusterRole", namespace, name)
            self._compiled_rules.pop(role, None)
            if change.new is None:
                self._roles.pop(role, None)
            else:
                self._roles[role] = change.new

    def _on_bindings(self, changes: Sequence[ObjectChange]) -> None:
        for change in changes:
            path = change.last.path
            for key in self._subjects.pop(path, ()):
                grants = self._grants[key]
                grants.pop(path, None)
                if not grants:
                    del self._grants[key]
            if change.new is not None:
                self._add_binding(path, change.new.tree())

    def _add_binding(self, path: str, tree: Tree) -> None:
        grants = dict(_grants_of(tree))
        self._subjects[path] = tuple(grants)
        for key, grant in grants.items():
            self._grants.setdefault(key, {})[path] = grant


def _grants_of(tree: Tree) -> Iterable[tuple[_Subject, Grant]]:
    metadata, reference = tree["metadata"], tree["roleRef"]
    scope = metadata.get("namespace") or ""
    kind, name = reference["kind"], reference["name"]
    role = RoleKey(kind, scope if kind == "Role" else "", name)
    binding = (
        f'RoleBinding "{metadata["name"]}/{scope}"'
        if scope
        else f'ClusterRoleBinding "{metadata["name"]}"'
    )
    for reference in tree.get("subjects") or ():
        kind, name = reference["kind"], reference["name"]
        described = f'{kind} "{name}"'
        if kind == "ServiceAccount":
            namespace = reference.get("namespace") or scope
            described = f'{kind} "{name}/{namespace}"'
            kind, name = "User", f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"
        reason = f'RBAC: allowed by {binding} of {role.kind} "{role.name}" to {described}'
        yield (kind, scope, name), Grant(role, _allow(reason))


def _allow(reason: str) -> Decision:
    return Decision(verdict=Verdict.ALLOW, reason=reason)
