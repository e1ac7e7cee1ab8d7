"""No request holds the event loop: the work on very many values is done in other threads.

Work is counted in function calls, not in time: a turn of the loop that calls fewer functions than
an object has values does not process them.
"""

import asyncio
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from kapiserver.api.errors import MAX_ERRORS
from kapiserver.apiserver.request import MAX_PARAMETERS, parse_query
from kapiserver.apiserver.user import UNSECURED
from kapiserver.storage.cache.offload import QUEUED_PER_USER, REQUESTER, Requester
from kapiserver.storage.concurrency.turns import next_turn
from tests.apiserver.conftest import Api, Server
from tests.bench.shapes import SHAPES, Call, Shape

VALUES = 10_000
TESTED = (
    "create NetworkPolicy, ipBlocks",
    "create ConfigMap, keys",
    "create ConfigMap, ownerReferences",
    "create ConfigMap, bad labels",
    "create custom object, free keys",
    "strategic merge patch, keys",
    "merge patch, keys",
    "merge patch of one key, large ConfigMap",
    "apply, keys",
    "JSON patch, inserts",
    "GET ConfigMap, keys, pretty",
    "GET ConfigMap, keys, YAML",
    "GET ConfigMap, keys, CBOR",
    "list of one ConfigMap, keys, JSON",
    "list of one ConfigMap, keys, YAML",
    "delete ConfigMaps, keys",
    "labelSelector, terms",
    "DeleteOptions, unknown fields",
    "SubjectAccessReview, extra",
)


class CallCounter:
    """Counts the function calls of each turn of an event loop, in its thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._count = self.highest = 0

    def __enter__(self) -> "CallCounter":
        self._in_loop(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        self._in_loop(None)

    def _in_loop(self, profile: object) -> None:
        finished = threading.Event()

        def install() -> None:
            sys.setprofile(profile)  # type: ignore[arg-type]
            finished.set()

        self._loop.call_soon_threadsafe(install)
        assert finished.wait(30)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            is_turn = frame.f_code is asyncio.Handle._run.__code__
            self._count = 0 if is_turn else self._count + 1
            self.highest = max(self.highest, self._count)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


def _send(api: Api, call: Call) -> int:
    return api(call.method, call.path, call.data, type=call.content_type, accept=call.accept).status


@pytest.mark.parametrize("name", TESTED)
def test_many_values(server: Server, name: str) -> None:
    """A request of very many values is processed off the event loop, whatever step it burdens."""
    shape = next(shape for shape in SHAPES if shape.name == name)
    for call in _warm_up(shape):
        _send(server.api, call)
    with CallCounter(server.loop) as counter:
        status = _send(server.api, shape.call(VALUES))
    assert status in (200, 201, 422)
    assert counter.highest < VALUES


def _warm_up(shape: Shape) -> Iterator[Call]:
    """Yield small requests, which load and compile what is used first, and then those that make the
    object."""
    yield from shape.before(1)
    yield shape.call(1)
    yield from shape.before(VALUES)


def test_list_that_is_too_large_for_yaml(server: Server) -> None:
    """A list that would take very long to encode is refused with a Status that says what to do;
    pages of it, and other forms, are not."""
    maps = "/api/v1/namespaces/kube-public/configmaps"
    for number in range(9):
        body = {"metadata": {"name": f"c{number}"}, "data": {"text": "x" * 1_000_000}}
        assert server.api.post(maps, body).status == 201
    refused = server.api.get(maps, accept="application/yaml")
    assert (refused.status, refused.headers["Content-Type"]) == (406, "application/yaml")
    assert "request application/json, or pages with limit" in refused.body.decode()
    assert server.api.get(f"{maps}?limit=2", accept="application/yaml").status == 200
    assert server.api.get(maps).status == 200


def test_too_much_queued_work(server: Server) -> None:
    """A user whose long work fills their part of the queue gets 429 with Retry-After. Their small
    requests go on, and large ones when the queue has room again."""
    offloader, opened = server.running.cluster.server.offloader, threading.Event()

    async def wait_idle() -> None:
        while offloader.is_running:
            await next_turn()

    async def fill() -> None:
        REQUESTER.set(Requester(UNSECURED.name))
        queued = [offloader.run_in_thread(opened.wait, 60) for _ in range(QUEUED_PER_USER + 1)]
        await asyncio.gather(*queued)

    maps = "/api/v1/namespaces/kube-node-lease/configmaps"
    large = {"metadata": {"name": "large"}, "data": {f"k{n}": "v" for n in range(VALUES)}}
    first = server.api.post(maps, {"metadata": {"name": "first"}})  # later ones need no thread
    assert first.status == 201
    # What the first write loads for others takes places in the queue.
    asyncio.run_coroutine_threadsafe(wait_idle(), server.loop).result(60)
    filled = asyncio.run_coroutine_threadsafe(fill(), server.loop)
    try:
        refused = server.api.post(maps, large)
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        assert refused.json["reason"] == "TooManyRequests"
        assert server.api.post(maps, {"metadata": {"name": "small"}}).status == 201
    finally:
        opened.set()
    filled.result(60)
    assert server.api.post(maps, large).status == 201


def test_very_many_errors(server: Server) -> None:
    """An answer lists a bounded number of field errors."""
    labels = {f"-{number}": "-" for number in range(MAX_ERRORS)}
    body = {"metadata": {"name": "bad", "labels": labels}}
    refused = server.api.post("/api/v1/namespaces/default/configmaps", body)
    assert refused.status == 422
    assert len(refused.json["details"]["causes"]) == MAX_ERRORS


def test_very_many_parameters() -> None:
    """A query with more parameters than Go parses is empty."""
    assert len(parse_query("&".join(["a=b"] * MAX_PARAMETERS))["a"]) == MAX_PARAMETERS
    assert parse_query("&".join(["a=b"] * (MAX_PARAMETERS + 1))) == {}
