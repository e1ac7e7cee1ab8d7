"""The examples of docs/extending.md run unchanged."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kapiserver.apiserver.config import Config
from kapiserver.app import RunningServer
from tests.clock import ManualClock

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"
MAX_LINES = 45
MERGE_PATCH = "application/merge-patch+json"
NAMESPACES = "/api/v1/namespaces"


def _blocks() -> dict[str, str]:
    """Return the code blocks of the page by the module in their first line."""
    blocks = re.findall(r"```python\n# (\w+)\.py\n(.*?)```", PAGE.read_text(), re.S)
    return dict(blocks)


@pytest.fixture
def example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Import a module of the page."""
    for name, code in _blocks().items():
        (tmp_path / f"{name}.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module
    for name in _blocks():
        sys.modules.pop(name, None)


def _config() -> Config:
    return Config.of(secure_port=None, insecure_port=0, shutdown_timeout=1)


async def _requests(
    serving: AbstractAsyncContextManager[RunningServer], *calls: tuple[str, str, Any]
) -> list[tuple[int, Any]]:
    """Send requests to a server one after another; return status and body of each."""
    responses = []
    async with serving as running, aiohttp.ClientSession() as session:
        for method, path, body in calls:
            headers = {"Content-Type": MERGE_PATCH} if method == "PATCH" else {}
            url = running.url + path
            async with session.request(method, url, json=body, headers=headers) as response:
                responses.append((response.status, await response.json()))
    return responses


def _namespace(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}}


def test_blocks_are_short() -> None:
    """Each example is one short module."""
    assert len(_blocks()) >= 4
    for name, code in _blocks().items():
        assert code.count("\n") <= MAX_LINES, name


def test_filter(example: Any) -> None:
    """The filter refuses the fourth request of a user and counts bytes."""
    module = example("serve_with_filter")
    calls = [("GET", NAMESPACES, None)] * 4
    responses = asyncio.run(_requests(module.start(_config()), *calls))
    assert [status for status, _ in responses] == [200, 200, 200, 429]
    assert responses[3][1]["reason"] == "TooManyRequests"
    assert example("limit_users").bytes_sent["system:unsecured"] > 1000


def test_authorizer(example: Any) -> None:
    """The authorizer denies writes at night and has no opinion otherwise."""
    start = example("office_hours").start
    for hour, expected in ((12, 201), (3, 403)):
        serving = start(_config(), ManualClock(hour * 3600.0))
        calls = (("POST", NAMESPACES, _namespace("a")), ("GET", NAMESPACES, None))
        (status, body), (read, _) = asyncio.run(_requests(serving, *calls))
        assert (status, read) == (expected, 200)
    assert body["message"].endswith(": the office is closed")


def test_admission_plugin(example: Any) -> None:
    """The plugin labels new namespaces, and keeps the label."""
    labels = {"metadata": {"labels": {"cost-center": None}}}
    calls = (("POST", NAMESPACES, _namespace("a")), ("PATCH", f"{NAMESPACES}/a", labels))

    serving = example("cost_center").start(_config())
    (created, namespace), (patched, status) = asyncio.run(_requests(serving, *calls))
    assert (created, patched) == (201, 403)
    assert namespace["metadata"]["labels"]["cost-center"] == "system-unsecured"
    assert "the label cost-center must stay" in status["message"]


def test_controller(example: Any) -> None:
    """The controller writes into each new namespace as its own user."""
    watch = (
        "/api/v1/configmaps?watch=1&fieldSelector=metadata.namespace%3Da,metadata.name%3Dwelcome"
    )

    async def run() -> dict[str, Any]:
        serving = example("welcome").start(_config())
        async with serving as running, aiohttp.ClientSession() as session:
            async with session.post(running.url + NAMESPACES, json=_namespace("a")) as response:
                assert response.status == 201
            async with session.get(running.url + watch) as stream:
                event: dict[str, Any] = json.loads(await stream.content.readline())
                return event

    event = asyncio.run(run())
    assert event["object"]["data"] == {"greeting": "hello"}
    assert event["object"]["metadata"]["managedFields"][0]["manager"] == "welcome-controller"


def test_two_clusters(example: Any, tmp_path: Path) -> None:
    """Both clusters are served, each at a URL of its own."""
    module = example("two_clusters")

    async def run() -> None:
        async with module.start(f"sqlite:{tmp_path / 'store.db'}") as kubeconfigs:
            servers = [re.findall(r"server: (\S+)", path.read_text()) for path in kubeconfigs]
            assert len(servers[0] + servers[1]) == 2
            assert servers[0] != servers[1]

    asyncio.run(run())
