"""Parses the verb, resource and name of a request from its method, path and query.

Knows no HTTP library, no scheme and no store; unknown groups and resources parse too. Mirrors
apiserver/pkg/endpoints/request/requestinfo.go of k8s.io/apiserver.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

from msgspec import Struct

from kapiserver.api.group import GroupVersion

_VERBS = {
    "GET": "get",
    "HEAD": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_COLLECTIONS = {"get": "list", "delete": "deletecollection"}
_OLD_PREFIXES = ("watch", "proxy")
"""Deprecated path segments before the resource, which name the verb."""
_OF_NAMESPACE_ITSELF = ("status", "finalize")
_LONG_RUNNING_VERBS = ("watch", "proxy")
_LONG_RUNNING_SUBRESOURCES = ("attach", "exec", "proxy", "log", "portforward")
_PROFILES = "/debug/pprof/"


NO_VERSION = GroupVersion("", "")


_MAX_CACHED_PATH = 512


class RequestInfo(Struct, frozen=True, kw_only=True):
    """The verb and the object of a request; parts that the path does not have are empty.

    path        the path; empty if this is only a question to the authorizer about a resource; so
                are prefix and is_item
    verb        get, list, watch, create, update, patch, delete, deletecollection or proxy of a
                resource; the method in lower case for other requests
    resource    the plural name in the path; empty for a non-resource request
    name        the name of the object; of a list, the name that its field selector requires
    is_item     whether the path names one object, or a subresource of it
    has_empty_namespace     whether the path has a namespace that is empty, as the paths of clients
                have whose variable is empty: of a list, it is about all namespaces
    trailing    the path segments below the subresource
    is_long_running     whether the request is exempt from the request timeout and the in-flight
                limits; set for requests of clients alone
    field_selector, label_selector  as in the query of a list, watch or deletecollection
    """

    path: str = ""
    verb: str
    prefix: str = ""
    version: GroupVersion = NO_VERSION
    namespace: str = ""
    resource: str = ""
    name: str = ""
    subresource: str = ""
    trailing: tuple[str, ...] = ()
    is_item: bool = False
    has_empty_namespace: bool = False
    is_long_running: bool = False
    field_selector: str = ""
    label_selector: str = ""

    @property
    def is_resource_request(self) -> bool:
        """Whether the path names a resource, and not discovery, health or the like."""
        return bool(self.resource)


def parse_request_info(method: str, path: str, query: Mapping[str, Sequence[str]]) -> RequestInfo:
    """Return the RequestInfo; `path` is unquoted and begins with a slash. Never raises."""
    if query or len(path) > _MAX_CACHED_PATH:
        return _parse(method, path, query)
    return _parse_without_query(method, path)


@functools.lru_cache(maxsize=1024)
def _parse_without_query(method: str, path: str) -> RequestInfo:
    return _parse(method, path, {})


def _parse(method: str, path: str, query: Mapping[str, Sequence[str]]) -> RequestInfo:
    non_resource = RequestInfo(
        path=path, verb=method.lower(), is_long_running=path.startswith(_PROFILES)
    )
    parts = _parts(path)
    if not parts or parts[0] not in ("api", "apis"):
        return non_resource
    prefix = parts[0]
    has_group = prefix == "apis"
    head = 3 if has_group else 2
    if len(parts) <= head:
        return non_resource
    version = GroupVersion(parts[1] if has_group else "", parts[head - 1])
    segments = parts[head:]
    verb = _VERBS.get(method, "")
    if segments[0] in _OLD_PREFIXES:
        if len(segments) < 2:
            return non_resource
        verb, segments = segments[0], segments[1:]
    namespace, has_empty_namespace = "", False
    if segments[0] == "namespaces" and len(segments) > 1:
        namespace = segments[1]
        has_empty_namespace = not namespace
        if len(segments) > 2 and segments[2] not in _OF_NAMESPACE_ITSELF:
            segments = segments[2:]
    name = segments[1] if len(segments) > 1 else ""
    subresource = segments[2] if len(segments) > 2 else ""
    field_selector = label_selector = ""
    if not name and verb in _OF_COLLECTIONS:
        verb = _OF_COLLECTIONS[verb]
        if verb == "list":
            if _asks_to_watch(query):
                verb = "watch"
            name = name_selected(query)
        field_selector, label_selector = selectors_of(query)
    return RequestInfo(
        path=path,
        verb=verb,
        prefix=prefix,
        version=version,
        namespace=namespace,
        resource=segments[0],
        name=name,
        subresource=subresource,
        trailing=tuple(segments[3:]),
        is_item=len(segments) > 1,
        has_empty_namespace=has_empty_namespace,
        is_long_running=verb in _LONG_RUNNING_VERBS or subresource in _LONG_RUNNING_SUBRESOURCES,
        field_selector=field_selector,
        label_selector=label_selector,
    )


def _parts(path: str) -> list[str]:
    """Return the steps of a path; none if one is empty and not a namespace."""
    if not has_empty_step(path):
        return [part for part in path.split("/") if part]
    before, _, after = path.partition("/namespaces//")
    resource = after.partition("/")[0]
    is_odd = not resource or resource in _OF_NAMESPACE_ITSELF
    if is_odd or has_empty_step(before) or has_empty_step(after):
        return []
    return [*_parts(before), "namespaces", "", *_parts(after)]


def has_empty_step(path: str) -> bool:
    """Whether a path has an empty step. What is below a proxy may have some, and so may the end."""
    return "//" in path.partition("/proxy/")[0].rstrip("/")


def selectors_of(query: Mapping[str, Sequence[str]]) -> tuple[str, str]:
    """Return the field selector and the label selector of a query; "" for none."""
    return (query.get("fieldSelector") or [""])[0], (query.get("labelSelector") or [""])[0]


def matches_path(pattern: str, path: str) -> bool:
    """Whether a pattern of a rule, which may end in `*`, matches the path of a request, or covers
    another pattern."""
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def _asks_to_watch(query: Mapping[str, Sequence[str]]) -> bool:
    # As Go's conversion of query parameters has it: whatever is not false is true, "" included.
    values = query.get("watch")
    return values is not None and values[0].lower() not in ("0", "false")


def name_selected(query: Mapping[str, Sequence[str]]) -> str:
    """The name of `fieldSelector=metadata.name=x`, which authorization may be granted for."""
    for term in (query.get("fieldSelector") or [""])[0].split(","):
        field, equals, value = term.partition("=")
        if equals and field.strip() == "metadata.name":
            return value.removeprefix("=")
    return ""
