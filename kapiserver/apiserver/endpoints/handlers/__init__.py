"""One handler per verb, none per kind; each loads when a request first asks for it."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import Answer

Handle: TypeAlias = Callable[[Server, Request], Awaitable[Answer]]

HANDLERS: dict[str, str] = {
    "create": "create.create",
    "delete": "delete.delete",
    "deletecollection": "deletecollection.deletecollection",
    "get": "get.get",
    "list": "list.list_",
    "patch": "patch.patch",
    "update": "update.update",
    "watch": "watch.watch",
}
"""Verb of a resource request to module and function."""


@functools.cache
def handler_of_verb(verb: str) -> Handle:
    """The handler of a verb. Decoding, admission and the owners of fields come with it: a server
    is ready before it has loaded them."""
    module, _, function = HANDLERS[verb].partition(".")
    loaded = importlib.import_module(f"{__name__}.{module}")
    return cast(Handle, getattr(loaded, function))
