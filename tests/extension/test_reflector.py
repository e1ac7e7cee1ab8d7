"""How an extension API server copies objects of its host, when the host answers as a test says."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from kapiserver.api.group import GroupVersionKind
from kapiserver.api.selectors import EVERYTHING
from kapiserver.extension.admission import reader
from kapiserver.extension.admission.copies import TreeCopies
from kapiserver.extension.admission.reader import ReaderOfHost
from kapiserver.extension.admission.reflector import Reflector
from kapiserver.extension.host_cluster import HostCluster
from kapiserver.storage.cache.offload import Offloader
from tests.apiserver.proxy.https_server import HttpsServer, Received, Reply
from tests.clock import ManualClock

MAPS = "/api/v1/configmaps"
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
SECRET = GroupVersionKind("", "v1", "Secret")


def _object(name: str, version: int) -> Any:
    return {"metadata": {"name": name, "namespace": "x", "resourceVersion": str(version)}}


def _list(version: int, *names: str, token: str = "") -> Reply:
    metadata = {"resourceVersion": str(version), "continue": token}
    items = [_object(name, version) for name in names]
    return Reply({"kind": "ConfigMapList", "apiVersion": "v1", "metadata": metadata,
                  "items": items})  # fmt: skip


def _events(*events: tuple[str, Any]) -> Reply:
    lines = [json.dumps({"type": type_, "object": obj}) for type_, obj in events]
    return Reply("".join(f"{line}\n" for line in lines).encode())


GONE = {"kind": "Status", "code": 410, "message": "too old resource version"}
SCRIPT: list[tuple[dict[str, str], Reply]] = [
    ({"limit": "50"}, Reply(status=500)),
    ({"limit": "50"}, _list(10, "a", token="t")),
    ({"continue": "t"}, _list(10, "b")),
    (
        {"watch": "1", "resourceVersion": "10"},
        _events(
            ("ADDED", _object("c", 11)),
            ("DELETED", _object("a", 12)),
            ("BOOKMARK", _object("", 13)),
        ),
    ),
    ({"watch": "1", "resourceVersion": "13"}, _events(("ERROR", GONE))),
    ({"limit": "50"}, _list(20, "d")),
    ({"watch": "1", "resourceVersion": "20"}, Reply(b"no JSON\n")),
    ({"limit": "50"}, _list(30, "e")),
    ({"watch": "1", "resourceVersion": "30"}, Reply(status=410)),
    ({"limit": "50"}, Reply({"items": 5})),
    ({"limit": "50"}, _list(40, "f")),
    ({"watch": "1", "resourceVersion": "40"}, _events(("ADDED", _object("g", 41)))),
]
"""The queries of the requests that a reflector sends, and the answers."""
COPIES = [[], [], ["a", "b"], ["b", "c"], ["b", "c"], ["d"], ["d"], ["e"], ["e"], ["e"], ["f"]]
"""The copies once the answer of the same number has been read, without the last one."""


@pytest.fixture
def server() -> Iterator[HttpsServer]:
    host = HttpsServer(None, lambda _: Reply(status=500))
    yield host
    host.end()


def _host(server: HttpsServer) -> HostCluster:
    return HostCluster(cluster={"server": server.url}, user={}, folder=Path())


async def _until(clock: ManualClock, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            clock.advance(60)
            await asyncio.sleep(0.01)


def test_reflector(server: HttpsServer) -> None:
    """The copies follow pages and events. After an error the reflector watches or lists again."""
    copies, clock, seen = TreeCopies(), ManualClock(), list[list[str]]()

    def respond(_received: Received) -> Reply:
        number = len(server.received) - 1
        seen.append([obj["metadata"]["name"] for obj in copies.select("", EVERYTHING)])
        return SCRIPT[number][1] if number < len(SCRIPT) else Reply(status=500)

    async def run() -> None:
        server.respond = respond
        reflector = Reflector(_host(server), MAPS, copies, clock, Offloader())
        reflector.start()
        await _until(clock, lambda: copies.get("x", "g") is not None)
        assert reflector.synced.is_set()
        await reflector.stop()

    asyncio.run(run())
    for received, (query, _) in zip(server.received, SCRIPT, strict=False):
        sent = {name: values[0] for name, values in parse_qs(urlsplit(received.path).query).items()}
        assert query.items() <= sent.items()
        assert ("resourceVersion" in sent) is ("watch" in sent)
    assert seen[1 : len(SCRIPT)] == COPIES


def test_parameters(server: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kind of parameters is followed from its first use on, until others are used; one that the
    host does not serve is looked up again after a while. New objects are read from the host."""
    monkeypatch.setattr(reader, "MAX_PARAM_KINDS", 1)
    monkeypatch.setattr(reader, "SYNC_SECONDS", 60.0)  # the machine may be busy
    names = {"ConfigMap": "configmaps", "Secret": "secrets"}
    resources = [{"name": name, "kind": kind, "namespaced": True} for kind, name in names.items()]
    answers = {
        "/api/v1": Reply({"resources": [{"name": "configmaps/x", "kind": "Secret"}, *resources]}),
        MAPS: _list(1, "a"),
        "/api/v1/secrets": _list(1, "s"),
        "/api/v1/namespaces/x/configmaps/new": Reply(_object("new", 2)),
        "/api/v1/namespaces/x": Reply(_object("x", 1)),
    }

    def respond(received: Received) -> Reply:
        url = urlsplit(received.path)
        if "watch" in url.query:
            return _events()
        return answers.get(url.path, Reply(status=404))

    def lookups() -> int:
        return len([each for each in server.received if each.path == "/api/v1"])

    async def run() -> None:
        server.respond, clock = respond, ManualClock()
        host = ReaderOfHost(_host(server), clock, Offloader())
        maps = await host.params(CONFIG_MAP)
        assert maps is not None
        assert await host.params(CONFIG_MAP) is maps
        assert maps.namespaced
        assert [obj["kind"] for obj in await maps.list("x", EVERYTHING)] == ["ConfigMap"]
        assert await maps.list("y", EVERYTHING) == []
        assert await maps.get("x", "new") == _object("new", 2)
        assert await maps.get("x", "absent") is None
        secrets = await host.params(SECRET)
        assert secrets is not None
        assert await secrets.get("x", "s") is not None
        assert await host.params(CONFIG_MAP) is not maps
        count = lookups()
        for seconds, sent in ((0, 1), (10, 1), (31, 2)):
            clock.advance(seconds)
            assert await host.params(CONFIG_MAP._replace(kind="Other")) is None
            assert lookups() == count + sent
        assert (await host.namespace("x") or {})["metadata"]["name"] == "x"
        for absent in ("y", "..", "a/b", ""):
            assert await host.namespace(absent) is None
        await host.stop()

    asyncio.run(run())
