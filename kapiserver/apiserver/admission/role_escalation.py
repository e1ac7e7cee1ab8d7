"""Prevents users from granting permissions that they do not hold, through roles and bindings.

A user who may `escalate` a role, or `bind` one, is exempt, as is the group system:masters. Mirrors
pkg/registry/rbac (policybased, escalation_check.go) and component-helpers/auth/rbac/validation
of Kubernetes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from kapiserver.api.accessors import metadata_of
from kapiserver.api.go_format import join_errors, quote
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.gc_fields import changes_only_gc_fields
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.authorization.rbac.authorizer import RbacAuthorizer
from kapiserver.apiserver.authorization.rbac.index import RBAC, RoleKey
from kapiserver.apiserver.authorization.rbac.rules import ALL
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request_info import RequestInfo, matches_path
from kapiserver.apiserver.user import MASTERS, User
from kapiserver.storage.errors import NotFound

_EVERYTHING: Sequence[Tree] = (
    {"verbs": [ALL], "apiGroups": [ALL], "resources": [ALL]},
    {"verbs": [ALL], "nonResourceURLs": [ALL]},
)
_FIELDS = ("apiGroups", "resources", "nonResourceURLs", "resourceNames", "verbs")
_RESOURCES = {"Role": "roles", "ClusterRole": "clusterroles"}


async def check(server: Server, attributes: Attributes, new: Tree, old: Tree | None) -> None:
    """Raise Forbidden if a role or binding grants more than its writer holds, and NotFound if a
    binding refers to a role that does not exist."""
    rbac = server.rbac
    user = attributes.user
    if rbac is None or MASTERS in user.groups or changes_only_gc_fields(new, old):
        return
    if "roleRef" in new:
        await _check_binding(server, rbac, attributes, _referenced_role(new))
        return
    key, resource = attributes.target.key, attributes.target.resource.name
    if await _is_allowed(server, user, "escalate", resource, key.namespace, key.name):
        return
    _confirm(rbac, attributes, new.get("rules") or ())
    if _aggregates(new) or (old is not None and _aggregates(old)):
        user_rules, _ = rbac.policy_rules(user, "")
        if missing_rules(user_rules, _EVERYTHING):
            raise attributes.forbidden(
                "must have cluster-admin privileges to use the aggregationRule"
            )


async def _check_binding(
    server: Server, rbac: RbacAuthorizer, attributes: Attributes, role: RoleKey
) -> None:
    resource = _RESOURCES.get(role.kind)
    if resource is None:
        return  # validation refuses the binding
    # A user may be allowed to bind a cluster role in some namespaces only.
    namespace = attributes.target.key.namespace
    if await _is_allowed(server, attributes.user, "bind", resource, namespace, role.name):
        return
    rules = rbac.index.rules(role)
    if rules is None:
        raise _not_found(attributes, role)
    _confirm(rbac, attributes, rules.trees)


def missing_rules(user_rules: Iterable[Tree], requested: Iterable[Tree]) -> list[Tree]:
    """Return the parts of the requested PolicyRules that no held rule covers, each for one verb on
    one resource, object or path."""
    user_rules = list(user_rules)
    return [
        part
        for rule in requested
        for part in _parts(rule)
        if not any(_covers(owned, part) for owned in user_rules)
    ]


def describe(rules: Iterable[Tree]) -> list[str]:
    """Describe rules in Kubernetes' form, sorted; rules that differ only in verbs are joined."""
    joined: dict[bytes, Tree] = {}
    for rule in rules:
        other_fields = {field: rule[field] for field in _FIELDS[:-1] if rule.get(field)}
        key = orjson.dumps(other_fields)
        if "nonResourceURLs" in other_fields:
            key += orjson.dumps(rule["verbs"])
        present = joined.setdefault(key, {**other_fields, "verbs": []})
        present["verbs"] = [*present["verbs"], *rule["verbs"]]
    return sorted({_description(rule) for rule in joined.values()})


def _confirm(rbac: RbacAuthorizer, attributes: Attributes, rules: Iterable[Tree]) -> None:
    user = attributes.user
    user_rules, unresolved = rbac.policy_rules(user, attributes.target.key.namespace)
    missing = missing_rules(user_rules, rules)
    if not missing:
        return
    groups = " ".join(quote(group) for group in user.groups)
    message = (
        f"user {quote(user.name)} (groups=[{groups}]) is attempting to grant RBAC permissions "
        "not currently held:\n" + "\n".join(describe(missing))
    )
    if unresolved:
        errors = join_errors(_resolution_error(attributes, role) for role in unresolved)
        message += f"; resolution errors: [{errors}]"
    raise attributes.forbidden(message)


def _resolution_error(attributes: Attributes, role: RoleKey) -> str:
    if role.kind not in _RESOURCES:
        return f"unsupported role reference kind: {quote(role.kind)}"
    return str(_not_found(attributes, role))


def _not_found(attributes: Attributes, role: RoleKey) -> NotFound:
    """Return the error for an absent role. kube-apiserver's store names the resource of the request
    in it, and not roles."""
    resource = attributes.target.resource
    return NotFound(resource=resource.name, group=resource.group, name=role.name)


def _aggregates(role: Tree) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def _referenced_role(binding: Tree) -> RoleKey:
    reference = binding["roleRef"]
    kind = reference.get("kind") or ""
    namespace = metadata_of(binding).get("namespace") or ""
    return RoleKey(kind, namespace if kind == "Role" else "", reference.get("name") or "")


async def _is_allowed(
    server: Server, user: User, verb: str, resource: str, namespace: str, name: str
) -> bool:
    version = GroupVersion(RBAC.group, ALL)
    info = RequestInfo(
        verb=verb, version=version, namespace=namespace, resource=resource, name=name
    )
    return (await server.authorizer.authorize(user, info)).allowed


def _parts(rule: Tree) -> Iterator[Tree]:
    for verb in rule.get("verbs") or ():
        for path in rule.get("nonResourceURLs") or ():
            yield {"nonResourceURLs": [path], "verbs": [verb]}
        for group in rule.get("apiGroups") or ():
            for resource in rule.get("resources") or ():
                part = {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
                names = rule.get("resourceNames") or ()
                for name in names:
                    yield {**part, "resourceNames": [name]}
                if not names:
                    yield part


def _covers(rule: Tree, part: Mapping[str, Sequence[str]]) -> bool:
    """Whether a rule allows one part of another rule."""
    if not _has(rule, "verbs", part["verbs"][0]):
        return False
    if "nonResourceURLs" in part:
        path = part["nonResourceURLs"][0]
        return any(matches_path(pattern, path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _has(rule, "apiGroups", part["apiGroups"][0])
        and _covers_resource(rule, part["resources"][0])
        and (not names or part.get("resourceNames", [None])[0] in names)
    )


def _covers_resource(rule: Tree, resource: str) -> bool:
    _, slash, subresource = resource.partition("/")
    if _has(rule, "resources", resource):
        return True
    return bool(slash) and f"{ALL}/{subresource}" in (rule.get("resources") or ())


def _has(rule: Tree, field: str, value: str) -> bool:
    values = rule.get(field) or ()
    return value in values or ALL in values


def _description(rule: Tree) -> str:
    names = ("APIGroups", "Resources", "NonResourceURLs", "ResourceNames", "Verbs")
    parts = (
        f"{name}:[{' '.join(map(quote, rule[field]))}]"
        for name, field in zip(names, _FIELDS, strict=True)
        if rule.get(field)
    )
    return "{" + ", ".join(parts) + "}"
