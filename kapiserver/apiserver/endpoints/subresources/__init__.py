"""Handlers of subresources that are not a part of the object. Each handles all verbs of its path.

The handlers of the verbs serve the subresources that are part of the object: status, scale, resize.
"""

from __future__ import annotations

from collections.abc import Callable

from kapiserver.api.lazy import lazy
from kapiserver.apiserver.endpoints.handlers import VerbHandler
from kapiserver.apiserver.target import Target

load_bind: Callable[[], VerbHandler] = lazy(
    "kapiserver.apiserver.endpoints.subresources.binding:bind"
)
_load_stream: Callable[[], VerbHandler] = lazy(
    "kapiserver.apiserver.endpoints.subresources.connections:stream"
)

SUBRESOURCES: dict[tuple[str, str, str], Callable[[], VerbHandler]] = {
    ("", "nodes", "proxy"): lazy("kapiserver.apiserver.endpoints.subresources.proxy:node_proxy"),
    ("", "pods", "attach"): _load_stream,
    ("", "pods", "binding"): load_bind,
    ("", "pods", "eviction"): lazy("kapiserver.apiserver.endpoints.subresources.eviction:evict"),
    ("", "pods", "exec"): _load_stream,
    ("", "pods", "log"): lazy("kapiserver.apiserver.endpoints.subresources.connections:log"),
    ("", "pods", "portforward"): _load_stream,
    ("", "pods", "proxy"): lazy("kapiserver.apiserver.endpoints.subresources.proxy:pod_proxy"),
    ("", "serviceaccounts", "token"): lazy(
        "kapiserver.apiserver.endpoints.subresources.token:request_token"
    ),
    ("", "services", "proxy"): lazy(
        "kapiserver.apiserver.endpoints.subresources.proxy:service_proxy"
    ),
}
"""Loaders, keyed by group, resource and subresource (see `media_types.py` on late loading)."""


def handler_of_subresource(target: Target) -> VerbHandler | None:
    """Return the handler of a path; None if the handler of the verb serves it."""
    resource = target.resource
    load = SUBRESOURCES.get((resource.group, resource.name, target.subresource))
    return None if load is None else load()
