"""The flow schema and the priority level of a request.

Requests are classified, not queued: fairness between flows is not there yet. Knows no filter and
no response. Mirrors matchesFlowSchema of util/flowcontrol/rule.go of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from msgspec import Struct

from kapiserver.api.accessors import uid_of
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.concurrency.subscriptions import Subscription
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.store_registry import StoreRegistry

_FLOWCONTROL = GroupVersion("flowcontrol.apiserver.k8s.io", "v1")
_SCHEMAS, _LEVELS = "flowschemas", "prioritylevelconfigurations"
_ALL = "*"
_ACCOUNT_PREFIX = "system:serviceaccount:"
_MAX_CACHED_LENGTH = 512
"""Letters of group, resource, namespace and path of a request whose flow is cached."""


class Flow(Struct, frozen=True, kw_only=True):
    """Uids of the flow schema and of its priority level."""

    schema_uid: str
    level_uid: str


class FlowClassifier:
    """Classifies requests by the FlowSchemas and PriorityLevelConfigurations of the store."""

    def __init__(self, stores: StoreRegistry) -> None:
        self._schemas = stores.by_name(_FLOWCONTROL, _SCHEMAS).informer
        self._levels = stores.by_name(_FLOWCONTROL, _LEVELS).informer
        self._subscriptions: list[Subscription] = []
        self._sorted: Sequence[Tree] | None = None
        self._cached = functools.lru_cache(maxsize=1024)(self._classify)

    def start(self) -> None:
        """Subscribe to the flow schemas and priority levels."""
        for informer in (self._schemas, self._levels):
            self._subscriptions.append(informer.subscribe(self._on_change))

    def stop(self) -> None:
        """Cancel the subscriptions."""
        for subscription in self._subscriptions:
            subscription.cancel()

    def classify(self, user: User, info: RequestInfo) -> Flow | None:
        """Return the flow of a request; None while no flow schema matches, as before the ones that
        every cluster has are made."""
        group = info.version.group
        resource = f"{info.resource}/{info.subresource}" if info.subresource else info.resource
        path = "" if info.is_resource_request else info.path
        is_long = len(group) + len(resource) + len(info.namespace) + len(path) > _MAX_CACHED_LENGTH
        classify = self._classify if is_long else self._cached
        return classify(user.name, user.groups, info.verb, group, resource, info.namespace, path)

    def _on_change(self, _change: ObjectChange) -> None:
        self._sorted = None
        self._cached.cache_clear()

    def _classify(
        self,
        user: str,
        groups: Sequence[str],
        verb: str,
        group: str,
        resource: str,
        namespace: str,
        path: str,
    ) -> Flow | None:
        for schema in self._in_precedence():
            for rule in schema["spec"].get("rules") or ():
                if not _matches_subject(rule.get("subjects") or (), user, groups):
                    continue
                matches = (
                    any(_matches_path(each, verb, path) for each in _of(rule, "nonResourceRules"))
                    if path
                    else any(
                        _matches_resource(each, verb, group, resource, namespace)
                        for each in _of(rule, "resourceRules")
                    )
                )
                if matches:
                    return self._flow(schema)
        return None

    def _in_precedence(self) -> Sequence[Tree]:
        if self._sorted is None:
            trees = [entry.tree() for entry in self._schemas.lister.list()]
            self._sorted = sorted(
                trees,
                key=lambda tree: (
                    tree["spec"].get("matchingPrecedence") or 0,
                    tree["metadata"]["name"],
                ),
            )
        return self._sorted

    def _flow(self, schema: Tree) -> Flow:
        name = schema["spec"]["priorityLevelConfiguration"]["name"]
        level = self._levels.lister.get(ObjectKey("", name))
        return Flow(
            schema_uid=uid_of(schema), level_uid="" if level is None else uid_of(level.tree())
        )


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
        if kind == "ServiceAccount" and user.startswith(_ACCOUNT_PREFIX):
            account = subject["serviceAccount"]
            namespace, _, name = user.removeprefix(_ACCOUNT_PREFIX).partition(":")
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
