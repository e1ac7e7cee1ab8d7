"""The span of the handler of a verb, with kube-apiserver's name and attributes.

Mirrors endpoints/handlers/trace_util.go of k8s.io/apiserver.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from kapiserver.apiserver.request import Request
from kapiserver.spans import span

_NAMES = {
    "get": "Get",
    "list": "List",
    "create": "Create",
    "update": "Update",
    "patch": "Patch",
    "delete": "Delete",
    "deletecollection": "Delete",
}
"""Names of spans, by verb. A watch has such a span only if it begins with a list."""
_NOTHING = nullcontext()


def handler_span(request: Request) -> AbstractContextManager[object]:
    """Return the span of the handler of a request; nothing if no span is exported."""
    info = request.info
    if not info.is_resource_request or not request.trace.is_sampled:
        return _NOTHING
    name = _NAMES.get(info.verb)
    if info.verb == "watch" and request.parameter("sendInitialEvents") == "true":
        name = "WatchList"
    if name is None:
        return _NOTHING
    attributes = {
        "accept": request.header("Accept"),
        "audit-id": request.audit.id,
        "client": request.remote,
        "api-group": info.version.group,
        "api-version": info.version.version,
        "name": info.name,
        "subresource": info.subresource,
        "namespace": info.namespace,
        "resource": info.resource,
        "url": request.path,
        "user-agent": request.header("User-Agent"),
        "verb": info.verb,
    }
    return span(name, {key: value for key, value in attributes.items() if value})
