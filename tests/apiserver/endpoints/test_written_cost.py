"""A write holds the event loop no longer because a webhook, a policy, a schema's defaults or a copy
within a patch made the object large: its bytes in the request do not show what it costs.

The longest turn of the event loop is measured in CPU time of its thread, so that a busy machine
does not matter.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kapiserver.api.apiextensions.schema import defaulting, structural
from tests.apiserver.admission.hookkit import add, hook_credentials, patch, rule, running_hook
from tests.apiserver.admission.policykit import Cluster
from tests.apiserver.conftest import Response, Server
from tests.apiserver.customresources.conversion_webhook import FREE, Webhook, good
from tests.apiserver.customresources.customkit import (
    CRDS,
    apply,
    definition,
    establish,
    path_of,
    version,
    widget,
)

KEYS, DEFAULT_KEYS = 60_000, 45_000
MAX_SECONDS = 0.05
"""Requests take 110 ms and more if what is written is not measured, and at most 13 otherwise."""
TICK_SECONDS = 0.002
"""Time between two looks at the clock, so that the loop is idle while a thread encodes."""
JSON_PATCH = "application/json-patch+json"


class Turns:
    """Measures the longest turn of an event loop while it is entered, in seconds of CPU."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._is_over = False
        self._last = 0.0
        self.longest = 0.0

    def __enter__(self) -> Turns:
        gc.collect()
        gc.disable()
        self._loop.call_soon_threadsafe(self._begin)
        return self

    def __exit__(self, *_: object) -> None:
        ended = threading.Event()

        def end() -> None:
            self._is_over = True
            ended.set()

        self._loop.call_soon_threadsafe(end)
        assert ended.wait(60)
        gc.enable()

    def _begin(self) -> None:
        self._last = time.thread_time()
        self._loop.call_soon(self._tick)

    def _tick(self) -> None:
        now = time.thread_time()
        self.longest = max(self.longest, now - self._last)
        self._last = now
        if not self._is_over:
            self._loop.call_later(TICK_SECONDS, self._tick)


@pytest.fixture(scope="module")
def credentials(tmp_path_factory):
    return hook_credentials(tmp_path_factory)


@pytest.fixture
def hook(credentials):
    yield from running_hook(credentials)


@pytest.fixture
def conversion(credentials):
    webhook = Webhook(credentials)
    yield webhook
    webhook.end()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


def _assert_short(turns: Turns, response: Response, *statuses: int) -> None:
    assert response.status in statuses, response.body[:500]
    assert turns.longest < MAX_SECONDS


@pytest.mark.own_process("cost")
def test_patch_of_a_webhook(server, hook) -> None:
    """A mutating webhook adds very many keys to a small object."""
    cluster = Cluster(server.api)
    assert cluster.config_map("first").status == 201
    rules = rule("configmaps")
    hook.configure(
        server.api, rules, mutating=True, namespaceSelector=cluster.selector, timeoutSeconds=30
    )
    assert cluster.config_map("loaded").status == 201
    hook.behave = patch(add("/data", {f"k{number}": "v" for number in range(KEYS)}))
    with Turns(server.loop) as turns:
        response = cluster.config_map("large")
    _assert_short(turns, response, 201)
    with Turns(server.loop) as turns:
        response = server.api.patch(f"{cluster.config_maps}/first", {"data": {"a": "b"}})
    _assert_short(turns, response, 200)


@pytest.mark.own_process("cost")
def test_patch_of_a_policy(server) -> None:
    """A mutating policy adds the very many keys of its parameters to a small object."""
    cluster = Cluster(server.api)
    assert cluster.config_map("few", data={"a": "b"}).status == 201
    many = {f"k{number}": "v" for number in range(KEYS)}
    assert cluster.config_map("many", data=many).status == 201
    for name in ("few", "many"):  # the first loads modules
        cluster.mutate(
            '[JSONPatch{op: "add", path: "/data", value: params.data}]',
            paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
            binding={"paramRef": {"name": name, "parameterNotFoundAction": "Deny"}},
        )
        with Turns(server.loop) as turns:
            response = cluster.config_map(f"small-{name}")
    _assert_short(turns, response, 201)
    assert len(response.json["data"]) == KEYS


@pytest.mark.own_process("cost")
def test_defaults(server) -> None:
    """A schema's default has very many keys."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "default": {}, "properties": {"many": _many_keys()}},
            "text": {"type": "string"},
        },
    }
    crd = definition(version("v1", schema))
    path = establish(server.api, crd)
    first = server.api.post(path, widget(crd, "first"))  # loads modules
    assert first.status == 201
    replacement = widget(crd, "first", text="b")
    replacement["metadata"]["resourceVersion"] = first.json["metadata"]["resourceVersion"]
    requests: list[Callable[[], Response]] = [
        lambda: server.api.post(path, widget(crd, "second")),
        lambda: apply(server.api, f"{path}/third", widget(crd, "third"), "m"),
        lambda: server.api.patch(f"{path}/second", {"text": "a"}),
        lambda: server.api.get(f"{path}/second"),
        lambda: server.api.put(f"{path}/first", replacement),
        lambda: server.api.delete(f"{path}/second"),
    ]
    for send in requests:
        with Turns(server.loop) as turns:
            response = send()
        _assert_short(turns, response, 200, 201)


@pytest.mark.own_process("cost")
def test_defaults_of_stored_objects(server) -> None:
    """A definition gets a default of very many keys when it has objects."""
    schema: dict[str, Any] = {"type": "object", "properties": {"text": {"type": "string"}}}
    crd = definition(version("v1", schema))
    path = establish(server.api, crd)
    assert server.api.post(path, widget(crd, "first")).status == 201
    schema["properties"]["many"] = _many_keys()
    crd_path = f"{CRDS}/{crd['metadata']['name']}"
    change = [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": schema}]
    assert server.api.patch(crd_path, change, JSON_PATCH).status == 200
    while "many" not in server.api.get(f"{path}/first").json:
        pass  # the definition is served when its event has arrived
    for query in ("", "/first"):
        with Turns(server.loop) as turns:
            response = server.api.get(path + query, accept="application/yaml")
        _assert_short(turns, response, 200)
    with Turns(server.loop) as turns:
        response = server.api.patch(f"{path}/first", {"text": "a"})
    _assert_short(turns, response, 200)


def _many_keys() -> Any:
    default = {f"k{number}": "v" for number in range(DEFAULT_KEYS)}
    return {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": default}


def test_estimate_of_defaults() -> None:
    """Defaults of items count for each map and null in a body."""
    item = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}}
    schema = {
        "type": "object",
        "properties": {
            "spec": {"type": "object", "default": {"b": [1, 2]}, "properties": {"c": item}},
            "items": {"type": "array", "items": item},
            "map": {"type": "object", "additionalProperties": {**item, "default": {}}},
        },
    }
    size = defaulting.size(structural.compile(schema))
    assert size == defaulting.DefaultSize(of_object=5, of_item=3)
    assert size.cost(b'{"items":[{},null]}') == 5 + 3 * 3
    assert size.cost(b"\xd9\xd9\xf7\xa1\x45items\x82\xa0\xf6") == 5 + 3 * 3
    assert defaulting.size(structural.compile({"type": "object"})).cost(b"{{{") == 0


@pytest.mark.own_process("cost")
def test_copies_of_a_patch(server) -> None:
    """A JSON patch copies a map again and again."""
    cluster = Cluster(server.api)
    data = {f"k{number}": "v" for number in range(400)}
    assert cluster.config_map("small", metadata={"labels": {"a": "b"}}, data=data).status == 201
    doubled = [{"op": "copy", "from": "/c", "path": f"/c/{number}"} for number in range(8)]
    operations = [add("/c", {}), {"op": "copy", "from": "/data", "path": "/c/a"}, *doubled]
    path = f"{cluster.config_maps}/small?fieldValidation=Ignore"
    assert server.api.patch(path, [add("/data/a", "b")], JSON_PATCH).status == 200
    with Turns(server.loop) as turns:
        response = server.api.patch(path, operations, JSON_PATCH)
    _assert_short(turns, response, 200)


@pytest.mark.own_process("cost")
def test_conversion_webhook(server, conversion) -> None:
    """A conversion webhook returns very many keys for a small object."""

    def inflate(request: Any, review: Any) -> Any:
        response = good(request, review)
        for obj in response["convertedObjects"]:
            obj["spec"] |= {f"k{number}": "v" for number in range(KEYS)}
        return response

    versions = [version("v1", FREE), version("v1beta1", FREE, storage=False)]
    crd = definition(*versions, conversion=conversion.conversion())
    establish(server.api, crd)
    path = path_of(crd, "v1beta1")
    for name in ("first", "second"):  # the first loads modules
        response = server.api.post(path, widget(crd, name, "v1beta1", spec={"name": "a b"}))
        assert response.status == 201
    conversion.behave = inflate
    for send in (
        lambda: server.api.get(f"{path_of(crd)}/first"),
        lambda: server.api.get(path),
        lambda: server.api.post(path, widget(crd, "third", "v1beta1", spec={"name": "a b"})),
    ):
        with Turns(server.loop) as turns:
            response = send()
        _assert_short(turns, response, 200, 201)
