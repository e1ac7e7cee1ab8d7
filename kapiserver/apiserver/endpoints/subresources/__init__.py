"""Handlers of subresources that are not a part of the object. Each handles all verbs of its path.

The handlers of the verbs serve the subresources that are part of the object: status, scale, resize.
"""

from __future__ import annotations

from collections.abc import Callable

from kapiserver.apiserver.endpoints.handlers import VerbHandler
from kapiserver.apiserver.target import Target


def load_bind() -> VerbHandler:
    """Load the handler of `bindings` and `pods/binding`."""
    from kapiserver.apiserver.endpoints.subresources.binding import bind

    return bind


def _load_evict() -> VerbHandler:
    from kapiserver.apiserver.endpoints.subresources.eviction import evict

    return evict


def _load_log() -> VerbHandler:
    from kapiserver.apiserver.endpoints.subresources.connections import log

    return log


def _load_node_proxy() -> VerbHandler:
    from kapiserver.apiserver.endpoints.subresources.proxy import node_proxy

    return node_proxy


def _load_pod_proxy() -> VerbHandler:
    from kapiserver.apiserver.endpoints.subresources.proxy import pod_proxy

    return pod_proxy


def _load_service_proxy() -> VerbHandler:
    from kapiserver.apiserver.endpoints.subresources.proxy import service_proxy

    return service_proxy


def _load_stream() -> VerbHandler:
    from kapiserver.apiserver.endpoints.subresources.connections import stream

    return stream


def _load_token() -> VerbHandler:
    from kapiserver.apiserver.endpoints.subresources.token import request_token

    return request_token


SUBRESOURCES: dict[tuple[str, str, str], Callable[[], VerbHandler]] = {
    ("", "nodes", "proxy"): _load_node_proxy,
    ("", "pods", "attach"): _load_stream,
    ("", "pods", "binding"): load_bind,
    ("", "pods", "eviction"): _load_evict,
    ("", "pods", "exec"): _load_stream,
    ("", "pods", "log"): _load_log,
    ("", "pods", "portforward"): _load_stream,
    ("", "pods", "proxy"): _load_pod_proxy,
    ("", "serviceaccounts", "token"): _load_token,
    ("", "services", "proxy"): _load_service_proxy,
}
"""Loaders, keyed by group, resource and subresource (see `media_types.py` on late loading)."""


def handler_of_subresource(target: Target) -> VerbHandler | None:
    """Return the handler of a path; None if the handler of the verb serves it."""
    resource = target.resource
    load = SUBRESOURCES.get((resource.group, resource.name, target.subresource))
    return None if load is None else load()
