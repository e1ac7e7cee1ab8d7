"""Servers with a seed: two runs, and two processes, have the same objects to the last byte."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from kapiserver.testing import TestServer
from tests.testing.http_client import MERGE, HttpClient
from tests.testing.test_snapshots import _definition

CORE = "/api/v1/namespaces"


def run(seed: int) -> str:
    """Return all objects, with uids, versions and times, after some work of a client and of many
    controllers."""
    with TestServer(seed=seed, tls=False) as server:
        client = HttpClient(server)
        for name in ("a", "b"):
            assert client("POST", CORE, {"metadata": {"name": name}})[0] == 201
        container = {"name": "c", "image": "i"}
        pod = {
            "metadata": {"generateName": "p-", "labels": {"app": "web"}},
            "spec": {"containers": [container]},
        }
        for _ in range(3):
            assert client("POST", f"{CORE}/a/pods", pod)[0] == 201
        service = {
            "metadata": {"name": "s"},
            "spec": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]},
        }
        assert client("POST", f"{CORE}/a/services", service)[0] == 201
        quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "9"}}}
        assert client("POST", f"{CORE}/a/resourcequotas", quota)[0] == 201
        budget = {
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
        }
        budgets = "/apis/policy/v1/namespaces/a/poddisruptionbudgets"
        assert client("POST", budgets, budget)[0] == 201
        server.state.load(
            _definition(),
            {"apiVersion": "example.com/v1", "kind": "Cron", "metadata": {"name": "c"}},
        )
        first = client("GET", f"{CORE}/a/pods")[1]["items"][0]["metadata"]["name"]
        client("PATCH", f"{CORE}/a/pods/{first}", {"metadata": {"labels": {"x": "y"}}}, type=MERGE)
        client("DELETE", f"{CORE}/b")
        server.clock.advance("20m")
        client("DELETE", f"{CORE}/a/services/s")
        port = server.url.rpartition(":")[2]
        dump = server.state.dump(everything=True, normalise=False)
        return dump.replace(f"ort: {port}\n", "ort: of the server\n")


@pytest.fixture(scope="module")
def first() -> str:
    """The dump of a run."""
    return run(1)


def test_two_runs(first: str) -> None:
    """The same seed gives the same dump, another one does not."""
    assert "kind: EndpointSlice" in first
    assert "creationTimestamp: 2025-01-01T00:00:00Z" in first.replace('"', "")
    assert run(1) == first
    assert run(2) != first


def test_two_processes(first: str) -> None:
    """Neither the hashes of strings nor what the process has done before changes the dump."""
    hash_seed = "2" if os.environ.get("PYTHONHASHSEED") == "1" else "1"
    dump = subprocess.run(
        [sys.executable, "-c", "from tests.testing.test_identifiers import run; print(run(1))"],
        env=os.environ | {"PYTHONHASHSEED": hash_seed},
        stdout=subprocess.PIPE,
        check=True,
        text=True,
    ).stdout
    assert dump.rstrip() == first.rstrip()


def test_start_again() -> None:
    """A server that is started again begins at the same time with the same identifiers."""
    server = TestServer(seed="again", tls=False)
    uids = []
    for _ in range(2):
        with server:
            body = {"metadata": {"generateName": "m-"}}
            _, created = HttpClient(server)("POST", f"{CORE}/default/configmaps", body)
            uids.append(created["metadata"])
            server.clock.advance("1h")
    assert uids[0] == uids[1]


def test_short_delays_take_no_time() -> None:
    """Controllers finish work with a short delay before the server handles the next request."""
    with TestServer(seed=1) as server:
        client = HttpClient(server)
        quotas = f"{CORE}/default/resourcequotas"
        client("POST", quotas, {"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "9"}}})
        assert client("GET", f"{quotas}/q")[1]["status"]["used"] == {"configmaps": "1"}
        server.objects.wait_for("quota/q", "jsonpath={.status.used.configmaps}=1")
        client("POST", f"{CORE}/default/configmaps", {"metadata": {"name": "m"}})
        server.objects.wait_for("quota/q", "jsonpath={.status.used.configmaps}=2")


@pytest.mark.parametrize("seed", [1, "text"])
def test_seeds(seed: int | str) -> None:
    """A seed is a number or a text."""
    with TestServer(seed=seed) as server:
        assert server.clock.frozen
