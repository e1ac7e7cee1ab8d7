"""The handlers of the verbs, for all kinds; each loads with its first request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kapiserver.api.lazy import Lazy, lazy
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target

VerbHandler: TypeAlias = Callable[[Server, Request, Target], Awaitable[AnyResponse]]


HANDLERS: dict[str, Lazy[VerbHandler]] = {
    "create": lazy("kapiserver.apiserver.endpoints.handlers.create:create"),
    "delete": lazy("kapiserver.apiserver.endpoints.handlers.delete:delete"),
    "deletecollection": lazy(
        "kapiserver.apiserver.endpoints.handlers.deletecollection:deletecollection"
    ),
    "get": lazy("kapiserver.apiserver.endpoints.handlers.get:get"),
    "list": lazy("kapiserver.apiserver.endpoints.handlers.list:list_"),
    "patch": lazy("kapiserver.apiserver.endpoints.handlers.patch:patch"),
    "update": lazy("kapiserver.apiserver.endpoints.handlers.update:update"),
    "watch": lazy("kapiserver.apiserver.endpoints.handlers.watch:watch"),
}
"""The verbs of resource requests (see `media_types.py` on late loading)."""
