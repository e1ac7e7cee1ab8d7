"""One handler per verb, none per kind."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.handlers.create import create
from kapiserver.apiserver.handlers.delete import delete
from kapiserver.apiserver.handlers.deletecollection import deletecollection
from kapiserver.apiserver.handlers.get import get
from kapiserver.apiserver.handlers.list import list_
from kapiserver.apiserver.handlers.patch import patch
from kapiserver.apiserver.handlers.update import update
from kapiserver.apiserver.handlers.watch import watch
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.respond import Answer

Handle: TypeAlias = Callable[[Server, Request], Awaitable[Answer]]

HANDLERS: dict[str, Handle] = {
    "create": create,
    "delete": delete,
    "deletecollection": deletecollection,
    "get": get,
    "list": list_,
    "patch": patch,
    "update": update,
    "watch": watch,
}
"""By the verb of the request."""
