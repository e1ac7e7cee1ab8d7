"""The handlers of the verbs, for all kinds; each loads with its first request."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from kapiserver.apiserver.context import Server
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.target import Target

VerbHandler: TypeAlias = Callable[[Server, Request, Target], Awaitable[AnyResponse]]


def _load_create() -> VerbHandler:
    from kapiserver.apiserver.endpoints.handlers.create import create

    return create


def _load_delete() -> VerbHandler:
    from kapiserver.apiserver.endpoints.handlers.delete import delete

    return delete


def _load_deletecollection() -> VerbHandler:
    from kapiserver.apiserver.endpoints.handlers.deletecollection import deletecollection

    return deletecollection


def _load_get() -> VerbHandler:
    from kapiserver.apiserver.endpoints.handlers.get import get

    return get


def _load_list() -> VerbHandler:
    from kapiserver.apiserver.endpoints.handlers.list import list_

    return list_


def _load_patch() -> VerbHandler:
    from kapiserver.apiserver.endpoints.handlers.patch import patch

    return patch


def _load_update() -> VerbHandler:
    from kapiserver.apiserver.endpoints.handlers.update import update

    return update


def _load_watch() -> VerbHandler:
    from kapiserver.apiserver.endpoints.handlers.watch import watch

    return watch


HANDLERS: dict[str, Callable[[], VerbHandler]] = {
    "create": _load_create,
    "delete": _load_delete,
    "deletecollection": _load_deletecollection,
    "get": _load_get,
    "list": _load_list,
    "patch": _load_patch,
    "update": _load_update,
    "watch": _load_watch,
}
"""The verbs of resource requests (see `media_types.py` on late loading)."""


@functools.cache
def handler_of_verb(verb: str) -> VerbHandler:
    """Return the handler of a verb. Its first call imports decoding, admission and field managers,
    so that starting a server does not wait for them."""
    return HANDLERS[verb]()
