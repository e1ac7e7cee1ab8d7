"""Errors leave no cycle that keeps what their frames refer to, wherever they are handled.

The filter that answers errors breaks the cycles of those that it sees. Other code handles errors of
its own, and calls without HTTP pass no filter.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import tempfile
import types
import weakref
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from kapiserver.api.apply.merge_schema import schema_of
from kapiserver.api.apply.typed_values import SchemaMismatch, checked_fields_of
from kapiserver.api.group import GroupVersion, GroupVersionKind
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.authentication.constrained_impersonation import attempts
from kapiserver.apiserver.authentication.impersonation import parse_impersonation
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.filters.impersonation import _first_authorized
from kapiserver.apiserver.filters.recovery import respond_to_errors
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import parse_request_info
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import APISERVER, User
from kapiserver.app import serve
from kapiserver.codecs.cbor import CBORSerializer
from kapiserver.storage.cache.query import WatchQuery
from kapiserver.storage.errors import Expired
from kapiserver.storage.sqlite.embedded_store import open_embedded
from tests.storage.test_embedded_store import limit_pages

CONFIG = Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1, controllers=("-*",))
WARM_UPS = 3
PATH = "/api/v1/namespaces/default/pods"


async def _no_body(_limit: int) -> bytes:
    return b""


def _request() -> Request:
    info = parse_request_info("GET", PATH, {})
    return Request(
        method="GET", path=PATH, query={}, headers={}, info=info, read_body=_no_body, user=APISERVER
    )


async def _error_in_a_variable(server: Server) -> None:
    """A handler that keeps its error in a variable."""

    async def handle(_request: Request) -> AnyResponse:
        error = BadRequest("kept")
        raise error

    response = await respond_to_errors(server, handle)(_request())
    assert response.status == 400


async def _impersonation(server: Server) -> None:
    impersonation = parse_impersonation({"Impersonate-User": "ann"})
    assert impersonation is not None
    info = parse_request_info("GET", PATH, {})
    ways = attempts(impersonation, User(name="joe"), info, constrained=True)
    await _first_authorized(server, ways)


def _webhook(name: str) -> dict[str, Any]:
    return {
        "name": f"{name}.example.com",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"],
             "resources": ["configmaps"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }  # fmt: skip


async def _parallel_webhooks(server: Server) -> None:
    client = server.client(APISERVER)
    configurations = client.resource(
        "admissionregistration.k8s.io/v1", "validatingwebhookconfigurations"
    )
    body = {"metadata": {"name": "two"}, "webhooks": [_webhook("a"), _webhook("b")]}
    with contextlib.suppress(Exception):  # it exists
        await configurations.create(body)
    maps = client.resource("v1", "configmaps", namespace="default")
    await maps.create({"metadata": {"name": "refused"}})


async def _expired_watch(server: Server) -> None:
    store = server.stores.by_name(GroupVersion("", "v1"), "configmaps")
    with contextlib.suppress(Expired):
        await server.stores.kv.compact(await server.stores.kv.current_revision())
        async for _ in store.events(WatchQuery(resource_version="1")):
            pass
    raise BadRequest("expired")


async def _full_disk(_server: Server) -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = await open_embedded(Path(folder) / "store.db")
        await limit_pages(store, 1)
        writes = [store.create(f"/{number}", b"x" * 100_000) for number in range(3)]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        await store.close()
    raise outcomes.pop()  # type: ignore[misc]


async def _cbor_bignum(server: Server) -> None:
    CBORSerializer(server.scheme).decode(b"\xd9\xd9\xf7\xa1\x61a\xc2\x41\x01")


async def _cbor_text(server: Server) -> None:
    kind = b"\x44kind\x49ConfigMap\x4aapiVersion\x42v1"
    CBORSerializer(server.scheme).decode(b"\xd9\xd9\xf7\xa3" + kind + b"\x44data\xa1\x41a\x41\xff")


ERRORS: list[Callable[[Server], Awaitable[None]]] = [
    _impersonation, _parallel_webhooks, _expired_watch, _full_disk, _cbor_bignum, _cbor_text,
]  # fmt: skip


async def _cyclic_frames(call: Callable[[], Awaitable[None]]) -> list[str]:
    """Return the frames that a call leaves to the collector."""
    for _ in range(WARM_UPS):
        await call()
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        await call()
        for _ in range(10):
            await asyncio.sleep(0)
        gc.collect()
        frames = [each for each in gc.garbage if isinstance(each, types.FrameType)]
        return sorted({frame.f_code.co_qualname for frame in frames})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()


def _run(test: Callable[[Server], Awaitable[None]]) -> list[str]:
    async def run() -> list[str]:
        async with serve(CONFIG) as running:
            gc.disable()
            try:
                return await _cyclic_frames(lambda: test(running.cluster.server))
            finally:
                gc.enable()

    return asyncio.run(run())


@pytest.mark.own_process("cycles")
@pytest.mark.parametrize("call", ERRORS)
def test_errors_of_calls(call: Callable[[Server], Awaitable[None]]) -> None:
    """An error that no filter sees leaves no frame."""
    raised: list[str] = []

    async def catch(server: Server) -> None:
        try:
            await call(server)
        except Exception as error:
            raised.append(repr(error))

    assert _run(catch) == []
    assert len(raised) == WARM_UPS + 1


@pytest.mark.own_process("cycles")
def test_errors_in_variables() -> None:
    """The filter that answers errors releases the frames of an error that one of them refers to."""
    assert _run(_error_in_a_variable) == []


class _Tree(dict[str, Any]):
    """An object that weak references may refer to."""


def test_misfits_are_forgotten() -> None:
    """Nothing refers to an object that did not fit its schema, as that of a refused apply."""
    scheme = Scheme()
    node = schema_of(scheme.type_of(GroupVersionKind("", "v1", "ConfigMap")))
    obj = _Tree(data=["not a map"])
    refers = weakref.ref(obj)
    with contextlib.suppress(SchemaMismatch):
        checked_fields_of(node, obj)
    del obj
    assert refers() is None
