"""Requests leave no reference cycles: what they used is freed at once, without the collector.

The collector of a serving process frees only cycles that are not older than 20,000 new objects
(`apiserver/serving/process/memory.py`).
"""

import asyncio
import gc
import json
import types
from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from kapiserver.api import types as kapiserver_types
from kapiserver.api.custom_kinds import CustomKind, CustomList
from kapiserver.storage.objects import object_reader
from tests.apiserver.conftest import Api, Server
from tests.apiserver.customresources.customkit import (
    CRDS,
    apply,
    definition,
    establish,
    path_of,
    version,
    wait_until_deleted,
    widget,
)
from tests.apiserver.proxy.test_proxy import create_pod
from tests.apiserver.proxy.upstreams import reply, running_upstream

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ROUNDS = 3
RUNS = 4
"""Repetitions of the rounds, in each of which a leak must show."""
TURNS = 10
"""Of the event loop, for the timers of what is deleted."""
FORMS = ("application/json", "application/yaml", "application/cbor")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PROTOBUF = "application/vnd.kubernetes.protobuf"


def _config_map(name: str, **fields: object) -> dict:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, **fields}


def _reads(api: Api) -> None:
    for accept in (*FORMS, TABLE, PROTOBUF):
        api.get(CONFIG_MAPS, accept=accept)
        api.get(f"{CONFIG_MAPS}/kube-root-ca.crt", accept=accept)
    for path in ("/nothing", f"{CONFIG_MAPS}/none", f"{CONFIG_MAPS}?limit=x", "/openapi/v3"):
        api.get(path)
    api.get(CONFIG_MAPS, accept="text/plain")


def _writes(api: Api) -> None:
    api.post(CONFIG_MAPS, _config_map("cycle", data={"a": "b"}))
    api.post(CONFIG_MAPS, _config_map("cycle"))
    path = f"{CONFIG_MAPS}/cycle"
    stale = _config_map("cycle") | {"metadata": {"name": "cycle", "resourceVersion": "1"}}
    api.put(path, stale)
    api.patch(path, {"data": {"a": 1}})
    api.patch(path, {"data": {"a": "c"}}, "strategic")
    api.patch(path, [{"op": "test", "path": "/data/a", "value": 1}], "json")
    apply = "application/apply-patch+yaml"
    for manager in ("one", "two"):
        value = _config_map("cycle", data={"a": manager})
        api.patch(f"{path}?fieldManager={manager}", value, apply)
    api.delete(path)
    api.delete(path)


def _bad_bodies(api: Api) -> None:
    for form in (*FORMS, PROTOBUF):
        for body in (b"", b"{", b"\xff\xff", b"a: [", b"k8s\x00\x0a", b'{"kind":"Pod"}'):
            api.post(CONFIG_MAPS, body, type=form)
    api.post(CONFIG_MAPS, b"{}", type="text/plain")
    api.post(CONFIG_MAPS, _config_map("-bad", data={"/": "b"}))


def _large_bodies(api: Api) -> None:
    # In a thread.
    api.post(CONFIG_MAPS, _config_map("large", data={f"/{i}": "v" for i in range(2_000)}))
    api.post(CONFIG_MAPS, json.dumps({"a": ["b"] * 10_000}).encode()[:-1])
    api.post(CONFIG_MAPS, _config_map("large", data={f"k{i}": "v" for i in range(2_000)}))
    for accept in (*FORMS, TABLE):
        api.get(f"{CONFIG_MAPS}/large", accept=accept)
    api.delete(f"{CONFIG_MAPS}/large")


def _watches(api: Api) -> None:
    for accept in FORMS:
        with api.watch(f"{CONFIG_MAPS}?watch=1&timeoutSeconds=10", accept=accept):
            api.post(CONFIG_MAPS, _config_map("seen"))
            api.delete(f"{CONFIG_MAPS}/seen")
    with api.watch(f"{CONFIG_MAPS}?watch=1&resourceVersion=1"):
        pass


def _proxied(api: Api) -> None:
    core = "/api/v1/namespaces/default"
    upgrade = {"Connection": "Upgrade", "Upgrade": "own"}
    with running_upstream() as upstream:
        path = create_pod(api, core, upstream.host, upstream.port) + "/proxy/"
        api.get(path)
        api.put(path, b"x" * 300_000)
        page = b"<a href='/x'>"
        for response in (reply(page, "Content-Type: text/html"), b"", b"SSH-2.0\r\n\r\n"):
            upstream.respond(response)
            api.put(path, b"x" * 300_000)
            api.get(path, headers=upgrade)
        switching = b"HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\n"
        upstream.respond(switching)
        api.get(path, headers=upgrade)
    api.put(path, b"x" * 300_000)
    api.get(path, headers=upgrade)
    api.delete(path.removesuffix("/proxy/"))
    path = create_pod(api, core, "127.0.0.1", 1) + "/proxy/"
    api.put(path, b"x" * 300_000)
    api.delete(path.removesuffix("/proxy/"))


def _definitions(api: Api) -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "x-kubernetes-validations": [{"rule": "self.n < 1000"}],
                "properties": {
                    "n": {"type": "integer", "default": 1},
                    "list": {"type": "array", "items": {"type": "string", "maxLength": 3}},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                },
            }
        },
    }
    versions = [version(name, schema, storage=name == "v1") for name in ("v1", "v2")]
    crd = definition(*versions, group="cycles.example.com")
    path = establish(api, crd)
    obj = widget(crd, "a", spec={"n": 2, "list": ["a"], "map": {"a": "b"}})
    for spec in ({"n": 2}, {"n": 2000}, {"n": "a", "list": ["long"]}):
        api.post(path, obj | {"spec": spec})
    apply(api, f"{path}/a", obj, "m")
    with api.watch(f"{path}?watch=1") as stream:
        stream.event()
    for accept in (*FORMS, TABLE):
        api.get(path, accept=accept)
        api.get(f"{path_of(crd, 'v2')}/a", accept=accept)
    api.get("/openapi/v3/apis/cycles.example.com/v1")
    latest = api.get(f"{CRDS}/{crd['metadata']['name']}").json
    latest["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "changed"
    assert api.put(f"{CRDS}/{crd['metadata']['name']}", latest).status == 200
    api.patch(f"{path}/a", {"spec": {"n": 3}})
    assert api.delete(f"{CRDS}/{crd['metadata']['name']}").status == 200
    wait_until_deleted(api, crd["metadata"]["name"])


def _name(obj: object) -> str:
    """Return a name of the cyclic garbage; "" for classes, which are always cycles, with what
    describes their fields, and for asyncio's transports, which serving processes do not use."""
    if isinstance(obj, types.FrameType):
        return f"frame of {obj.f_code.co_qualname}"
    if isinstance(obj, types.CoroutineType):
        return f"coroutine {obj.__qualname__}"
    if isinstance(obj, BaseException | asyncio.Future):
        return type(obj).__qualname__
    if isinstance(obj, types.FunctionType) and "<locals>" in obj.__qualname__:
        return f"{obj.__module__}.{obj.__qualname__}"
    type_ = type(obj)
    module = str(type_.__module__)
    is_ours = module.startswith("kapiserver.") and module != kapiserver_types.__name__
    return f"{module}.{type_.__qualname__}" if is_ours else ""


def _wait_released(server: Server) -> None:
    """Wait until the last deleted definition is released, and its store stopped."""

    async def wait() -> None:
        custom_resources = server.running.cluster.server.custom_resources
        await asyncio.gather(*custom_resources._removal_tasks)
        for _ in range(TURNS):
            await asyncio.sleep(0)

    asyncio.run_coroutine_threadsafe(wait(), server.loop).result(60)


def _repeated_garbage(server: Server, send: Callable[[Api], None]) -> Counter[str]:
    """Return what each round of the requests leaves to the collector, and again each time that the
    rounds are repeated: the first use of a type in another thread leaves the function that made its
    codec."""
    garbage = _garbage(server, send)
    for _ in range(RUNS - 1):
        if garbage:
            garbage &= _garbage(server, send)
    return garbage


def _garbage(server: Server, send: Callable[[Api], None]) -> Counter[str]:
    """Return what the rounds of the requests leave to the collector, at least one for each."""
    gc.collect()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        for _ in range(ROUNDS):
            send(server.api)
        _wait_released(server)
        gc.collect()
        names = Counter(filter(None, map(_name, gc.garbage)))
        return Counter({name: count for name, count in names.items() if count >= ROUNDS})
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.collect()


@pytest.mark.own_process
@pytest.mark.parametrize(
    "send", [_reads, _writes, _bad_bodies, _large_bodies, _watches, _proxied, _definitions]
)
def test_requests_leave_no_cycles(
    send: Callable[[Api], None],
    make_server: Callable[..., Server],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What a request used is freed without a collection. Exceptions are in frames, which are in
    exceptions; a connection is in its parser; schemas are in what is compiled from them."""
    monkeypatch.setattr(object_reader, "MAX_REQUEST_SECONDS", 0.0)
    server = make_server()
    send(server.api)  # imports modules
    _wait_released(server)
    gc.collect()
    gc.freeze()  # what is there now can be in no new cycle, and would take long to visit
    gc.disable()
    try:
        assert _repeated_garbage(server, send) == {}
    finally:
        gc.enable()


@pytest.mark.own_process
def test_deleted_definitions_leave_no_types(
    make_server: Callable[..., Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No cache keeps the type of a custom kind whose definition changed or was deleted."""
    monkeypatch.setattr(object_reader, "MAX_REQUEST_SECONDS", 0.0)
    server = make_server()
    counts = [_count_custom_types()]
    for _ in range(RUNS):
        for _ in range(ROUNDS):
            _definitions(server.api)
        _wait_released(server)
        gc.collect()
        counts.append(_count_custom_types())
    # Idle threads may still refer to the last definitions, whose number does not grow.
    assert min(later - earlier for earlier, later in pairwise(counts)) < ROUNDS


def _count_custom_types() -> int:
    return len(CustomKind.__subclasses__()) + len(CustomList.__subclasses__())
