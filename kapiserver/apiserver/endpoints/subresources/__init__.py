"""Paths below objects that are no part of them: one handler each, for all verbs the path takes.

What is a part of the object (status, scale, resize) is written by the handlers of the verbs.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.response import Answer

Handle: TypeAlias = Callable[[Server, Request], Awaitable[Answer]]

SUBRESOURCES: dict[tuple[str, str, str], str] = {
    ("", "bindings", ""): "binding.bind",
    ("", "nodes", "proxy"): "connections.node_proxy",
    ("", "pods", "attach"): "connections.stream",
    ("", "pods", "binding"): "binding.bind",
    ("", "pods", "eviction"): "eviction.evict",
    ("", "pods", "exec"): "connections.stream",
    ("", "pods", "log"): "connections.log",
    ("", "pods", "portforward"): "connections.stream",
    ("", "pods", "proxy"): "connections.pod_proxy",
    ("", "serviceaccounts", "token"): "token.request",
    ("", "services", "proxy"): "connections.service_proxy",
}
"""(group, resource, subresource) to module and function; loaded when first asked for."""


def handler_of(info: RequestInfo) -> Handle | None:
    """The handler of a path; None where the verb's own is meant."""
    named = SUBRESOURCES.get((info.version.group, info.resource, info.subresource))
    if named is None:
        return None
    module, _, function = named.partition(".")
    loaded = importlib.import_module(f"{__name__}.{module}")
    return cast(Handle, getattr(loaded, function))
