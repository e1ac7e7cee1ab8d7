"""Handlers of subresources that are not a part of the object. Each handles all verbs of its path.

The handlers of the verbs serve the subresources that are part of the object: status, scale, resize.
"""

from __future__ import annotations

from kapiserver.api.lazy import Lazy, lazy
from kapiserver.apiserver.endpoints.handlers import VerbHandler
from kapiserver.apiserver.target import Target

lazy_bind: Lazy[VerbHandler] = lazy("kapiserver.apiserver.endpoints.subresources.binding:bind")
_lazy_execute: Lazy[VerbHandler] = lazy(
    "kapiserver.apiserver.endpoints.subresources.connections:execute"
)

SUBRESOURCES: dict[tuple[str, str, str], Lazy[VerbHandler]] = {
    ("", "nodes", "proxy"): lazy("kapiserver.apiserver.endpoints.subresources.proxy:node_proxy"),
    ("", "pods", "attach"): _lazy_execute,
    ("", "pods", "binding"): lazy_bind,
    ("", "pods", "eviction"): lazy("kapiserver.apiserver.endpoints.subresources.eviction:evict"),
    ("", "pods", "exec"): _lazy_execute,
    ("", "pods", "log"): lazy("kapiserver.apiserver.endpoints.subresources.connections:log"),
    ("", "pods", "portforward"): lazy(
        "kapiserver.apiserver.endpoints.subresources.connections:port_forward"
    ),
    ("", "pods", "proxy"): lazy("kapiserver.apiserver.endpoints.subresources.proxy:pod_proxy"),
    ("", "serviceaccounts", "token"): lazy(
        "kapiserver.apiserver.endpoints.subresources.token:request_token"
    ),
    ("", "services", "proxy"): lazy(
        "kapiserver.apiserver.endpoints.subresources.proxy:service_proxy"
    ),
}
"""Handlers, keyed by group, resource and subresource (see `media_types.py` on late loading)."""


def handler_of_subresource(target: Target) -> Lazy[VerbHandler] | None:
    """Return the handler of a path; None if the handler of the verb serves it."""
    resource = target.resource
    return SUBRESOURCES.get((resource.group, resource.name, target.subresource))
