"""Which FlowSchema matches a request. Mirrors util/flowcontrol/rule.go of k8s.io/apiserver."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.types import Tree
from kapiserver.apiserver.user import SERVICE_ACCOUNT_PREFIX

_ALL = "*"


def matches(
    schema: Tree,
    user: str,
    groups: Sequence[str],
    verb: str,
    group: str,
    resource: str,
    namespace: str,
    path: str,
) -> bool:
    """Return whether a FlowSchema matches a request. `resource` has its subresource after a slash;
    `path` is "" for requests of resources."""
    for rule in schema["spec"].get("rules") or ():
        if not _matches_subject(rule.get("subjects") or (), user, groups):
            continue
        if path:
            if any(_matches_path(item, verb, path) for item in _of(rule, "nonResourceRules")):
                return True
        elif any(
            _matches_resource(item, verb, group, resource, namespace)
            for item in _of(rule, "resourceRules")
        ):
            return True
    return False


def _of(rule: Tree, name: str) -> Sequence[Tree]:
    return rule.get(name) or ()


def _has(values: Sequence[str] | None, value: str) -> bool:
    return values is not None and (value in values or _ALL in values)


def _matches_subject(subjects: Sequence[Tree], user: str, groups: Sequence[str]) -> bool:
    for subject in subjects:
        kind = subject.get("kind")
        if kind == "User" and subject["user"]["name"] in (user, _ALL):
            return True
        if kind == "Group" and subject["group"]["name"] in (*groups, _ALL):
            return True
        if kind == "ServiceAccount" and user.startswith(SERVICE_ACCOUNT_PREFIX):
            account = subject["serviceAccount"]
            namespace, _, name = user.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
            if account["namespace"] == namespace and account["name"] in (name, _ALL):
                return True
    return False


def _matches_resource(rule: Tree, verb: str, group: str, resource: str, namespace: str) -> bool:
    if not _has(rule.get("verbs"), verb) or not _has(rule.get("apiGroups"), group):
        return False
    if not _has(rule.get("resources"), resource):
        return False
    return _has(rule.get("namespaces"), namespace) if namespace else bool(rule.get("clusterScope"))


def _matches_path(rule: Tree, verb: str, path: str) -> bool:
    if not _has(rule.get("verbs"), verb):
        return False
    urls: Sequence[str] = rule.get("nonResourceURLs") or ()
    return any(
        url in (path, _ALL) or (url.endswith("/*") and path.startswith(url[:-1])) for url in urls
    )
