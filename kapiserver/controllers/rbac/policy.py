"""The roles and role bindings that every cluster with RBAC has.

Facts of Kubernetes 1.37, by plugin/pkg/auth/authorizer/rbac/bootstrappolicy. Knows no store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kapiserver.api.types import Tree
from kapiserver.apiserver.authorization.policy_rules import EVENTS, GROUP, READ, rule
from kapiserver.controllers.rbac.cluster_roles import (
    AGGREGATED_ROLES,
    CLUSTER_ROLES,
    RULES_BY_AGGREGATE,
)
from kapiserver.controllers.rbac.controller_roles import CONTROLLER_ROLES

AUTOUPDATE = "rbac.authorization.kubernetes.io/autoupdate"
"""The annotation of objects that the server keeps complete, while its value is "true"."""
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_CONTROLLER = "system:controller:"
_SYSTEM = "kube-system"


class PolicyObject(NamedTuple):
    """A role or binding: the resource it belongs to, and the object."""

    resource: str
    tree: Tree


_SUBJECTS: Mapping[str, Sequence[str]] = {
    # cluster role: subjects, as kind:name or ServiceAccount:namespace/name
    "cluster-admin": ("Group:system:masters",),
    "system:monitoring": ("Group:system:monitoring",),
    "system:discovery": ("Group:system:authenticated",),
    "system:basic-user": ("Group:system:authenticated",),
    "system:public-info-viewer": ("Group:system:authenticated", "Group:system:unauthenticated"),
    "system:node-proxier": ("User:system:kube-proxy",),
    "system:kube-controller-manager": ("User:system:kube-controller-manager",),
    "system:kube-dns": (f"ServiceAccount:{_SYSTEM}/kube-dns",),
    "system:kube-scheduler": ("User:system:kube-scheduler",),
    "system:volume-scheduler": ("User:system:kube-scheduler",),
    "system:node": (),
    "system:service-account-issuer-discovery": ("Group:system:serviceaccounts",),
    "system:cluster-trust-bundle-discovery": ("Group:system:serviceaccounts",),
}

_LOCK_RULES = "system::leader-locking-kube-"
_READER = "extension-apiserver-authentication-reader"


class _NamespaceRole(NamedTuple):
    namespace: str
    name: str
    rules: Sequence[Tree]
    subjects: Sequence[str]
    binding: str = ""
    """The name of the binding; empty if it is the name of the role."""


_SIGNER = f"ServiceAccount:{_SYSTEM}/bootstrap-signer"
_NAMESPACE_ROLES = (
    _NamespaceRole(
        _SYSTEM, _READER, (rule(READ, "core", "configmaps", _READER.removesuffix("-reader")),),
        ("User:system:kube-controller-manager", "User:system:kube-scheduler"),
        f"system::{_READER}",
    ),
    _NamespaceRole(
        _SYSTEM, f"{_CONTROLLER}bootstrap-signer", (rule(READ, "core", "secrets"),), (_SIGNER,)
    ),
    _NamespaceRole(
        _SYSTEM, f"{_CONTROLLER}cloud-provider",
        (rule(f"create {READ}", "core", "configmaps"),),
        (f"ServiceAccount:{_SYSTEM}/cloud-provider",),
    ),
    _NamespaceRole(
        _SYSTEM, f"{_CONTROLLER}token-cleaner",
        (rule(f"delete {READ}", "core", "secrets"), EVENTS),
        (f"ServiceAccount:{_SYSTEM}/token-cleaner",),
    ),
    *(
        _NamespaceRole(
            _SYSTEM, f"{_LOCK_RULES}{program}",
            (
                rule(f"create update {READ}", "coordination.k8s.io", "leases"),
                rule(f"create update {READ}", "coordination.k8s.io", "leasecandidates"),
            ),
            (
                f"User:system:kube-{program}",
                *(f"ServiceAccount:{_SYSTEM}/{account}" for account in accounts),
            ),
        )
        for program, accounts in (
            ("controller-manager", ("kube-controller-manager", "leader-election-controller")),
            ("scheduler", ("kube-scheduler",)),
        )
    ),
    _NamespaceRole(
        "kube-public", f"{_CONTROLLER}bootstrap-signer",
        (
            rule(READ, "core", "configmaps"),
            rule("update", "core", "configmaps", "cluster-info"),
            EVENTS,
        ),
        (_SIGNER,),
    ),
)  # fmt: skip


def bootstrap_policy() -> Iterator[PolicyObject]:
    """Yield every role and binding in canonical form, as a decoder returns them; cluster roles
    first, bindings after the roles they refer to."""
    for name, aggregated_to in AGGREGATED_ROLES.items():
        selectors = [{"matchLabels": {f"{GROUP}/aggregate-to-{name}": "true"}}]
        tree = _object("ClusterRole", name, labels=_aggregation_label(aggregated_to))
        aggregation = {"clusterRoleSelectors": selectors}
        yield PolicyObject("clusterroles", {**tree, "rules": None, "aggregationRule": aggregation})
    for name, rules in RULES_BY_AGGREGATE.items():
        tree = _object(
            "ClusterRole", f"system:aggregate-to-{name}", labels=_aggregation_label(name)
        )
        yield PolicyObject("clusterroles", {**tree, "rules": list(rules)})
    for name, rules in CLUSTER_ROLES.items():
        yield PolicyObject("clusterroles", {**_object("ClusterRole", name), "rules": list(rules)})
    for name, subjects in _SUBJECTS.items():
        yield _cluster_binding(name, subjects)
    for controller, rules in CONTROLLER_ROLES.items():
        name = f"{_CONTROLLER}{controller}"
        yield PolicyObject("clusterroles", {**_object("ClusterRole", name), "rules": list(rules)})
        yield _cluster_binding(name, (f"ServiceAccount:{_SYSTEM}/{controller}",))
    for role in _NAMESPACE_ROLES:
        tree = _object("Role", role.name, namespace=role.namespace)
        yield PolicyObject("roles", {**tree, "rules": list(role.rules)})
        tree = _object("RoleBinding", role.binding or role.name, namespace=role.namespace)
        yield PolicyObject("rolebindings", {**tree, **_grant("Role", role.name, role.subjects)})


def _cluster_binding(role: str, subjects: Iterable[str]) -> PolicyObject:
    tree = {**_object("ClusterRoleBinding", role), **_grant("ClusterRole", role, subjects)}
    return PolicyObject("clusterrolebindings", tree)


def _grant(kind: str, role: str, subjects: Iterable[str]) -> Tree:
    reference = {"apiGroup": GROUP, "kind": kind, "name": role}
    subject_trees = [_subject(text) for text in subjects]
    return {**({"subjects": subject_trees} if subject_trees else {}), "roleRef": reference}


def _subject(text: str) -> Tree:
    kind, _, name = text.partition(":")
    if kind != "ServiceAccount":
        return {"kind": kind, "apiGroup": GROUP, "name": name}
    namespace, _, name = name.partition("/")
    return {"kind": kind, "name": name, "namespace": namespace}


def _aggregation_label(role: str) -> Mapping[str, str]:
    return {f"{GROUP}/aggregate-to-{role}": "true"} if role else {}


def _object(
    kind: str, name: str, *, namespace: str = "", labels: Mapping[str, str] | None = None
) -> Tree:
    metadata: Tree = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    metadata["labels"] = {**_LABELS, **(labels or {})}
    metadata["annotations"] = {AUTOUPDATE: "true"}
    return {"kind": kind, "apiVersion": f"{GROUP}/v1", "metadata": metadata}
