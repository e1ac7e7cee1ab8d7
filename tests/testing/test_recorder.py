"""Recordings of failed tests, and what `kapiserver replay` serves of them."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest

from kapiserver.apiserver.config import Config
from kapiserver.cli import main
from kapiserver.testing import TestServer
from kapiserver.testing.history.recorder import Recording, read
from kapiserver.testing.history.replay import serve_recording, timeline
from tests.e2e.programs import kubectls
from tests.testing.http_client import MERGE, HttpClient
from tests.testing.test_snapshots import _definition

MAPS = "/api/v1/namespaces/default/configmaps"
CRONS = "/apis/example.com/v1/namespaces/default/crons"


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording of a server with a ConfigMap that changed, one that was deleted, and a custom
    object."""
    path = tmp_path_factory.mktemp("recordings") / "r.json.gz"
    with TestServer() as server:
        client = HttpClient(server)
        client("POST", MAPS, {"metadata": {"name": "m"}, "data": {"k": "1"}})
        client("PATCH", f"{MAPS}/m", {"data": {"k": "2"}}, type=MERGE)
        client("POST", MAPS, {"metadata": {"name": "gone"}})
        client("DELETE", f"{MAPS}/gone")
        cron = {"apiVersion": "example.com/v1", "kind": "Cron", "metadata": {"name": "c"}}
        server.state.load(_definition(), cron)
        server.record(path, test="test_it")
    return path


def _get(path: Path, *urls: str, at: int | None = None) -> list[tuple[int, dict]]:
    """The responses of a replay to GET requests."""

    async def run() -> list[tuple[int, dict]]:
        config = Config.of(secure_port=None, insecure_port=0, authorization_mode=("AlwaysAllow",))
        responses = []
        async with (
            serve_recording(read(path), at=at, config=config) as running,
            aiohttp.ClientSession() as session,
        ):
            for url in urls:
                async with session.get(running.url + url) as response:
                    is_json = response.content_type == "application/json"
                    body = await response.json() if is_json else {}
                    responses.append((response.status, body))
        return responses

    return asyncio.run(run())


def test_final_state(recording: Path) -> None:
    """A replay has the objects with their versions and uids, custom ones included."""
    (_, changed), (missing, _), (_, cron) = _get(
        recording, f"{MAPS}/m", f"{MAPS}/gone", f"{CRONS}/c"
    )
    assert changed["data"] == {"k": "2"}
    assert missing == 404
    assert cron["kind"] == "Cron"
    document = read(recording)
    revisions = [w.event.revision for w in document.writes if w.event.key.endswith("default/m")]
    assert int(changed["metadata"]["resourceVersion"]) == revisions[-1]
    assert document.test == "test_it"
    assert [r["verb"] for r in document.requests] == ["create", "patch", "create", "delete"]


def test_time_travel(recording: Path) -> None:
    """Exact lists and --at show earlier revisions; a revision that is not there is refused."""
    writes = read(recording).writes
    first, *_ = (w.event.revision for w in writes if w.event.key.endswith("default/m"))
    exact = f"{MAPS}?resourceVersion={first}&resourceVersionMatch=Exact"
    ((_, listed),) = _get(recording, exact)
    data = {item["metadata"]["name"]: item.get("data") for item in listed["items"]}
    assert data["m"] == {"k": "1"}
    assert "gone" not in data
    (_, obj), (missing, _) = _get(recording, f"{MAPS}/m", CRONS, at=first)
    assert obj["data"] == {"k": "1"}
    assert missing == 404
    with pytest.raises(ValueError, match="has the revisions up to"):
        _get(recording, MAPS, at=10**6)


def test_base(tmp_path: Path) -> None:
    """A recording has the objects whose writes the journal no longer keeps."""
    path = tmp_path / "r"
    with TestServer() as server:
        client = HttpClient(server)
        client("POST", MAPS, {"metadata": {"name": "before"}})
        server.state.restore(server.state.snapshot())
        server.reset()
        client("POST", MAPS, {"metadata": {"name": "after"}})
        server.record(path)
    (_, listed), (_, namespaces) = _get(path, MAPS, "/api/v1/namespaces")
    assert {item["metadata"]["name"] for item in listed["items"]} == {"after", "kube-root-ca.crt"}
    assert len(namespaces["items"]) == 4
    assert len([w for w in read(path).writes if "configmaps/default" in w.event.key]) == 1


def test_timeline(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Requests and writes are printed in the order of their times."""
    assert main(["replay", str(recording), "--print"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines == timeline(read(recording)).splitlines()
    create, write = (
        next(number for number, line in enumerate(lines) if text in line)
        for text in (f"kubernetes-admin create {MAPS}: 201", "/configmaps/default/m")
    )
    assert create < write
    assert lines == sorted(lines, key=lambda line: line.partition(" ")[0])


def test_no_recording(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Other files are refused with a message."""
    path = tmp_path / "other"
    path.write_text("{}")
    assert main(["replay", str(path)]) == 1
    assert "is not a recording of a test server" in capsys.readouterr().err
    assert Recording(test="", root="/registry", time=0.0).revision == 1


SUITE = """
def test_it(kube_apiserver):
    kube_apiserver.state.load({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}})
    assert False, "on purpose"
"""


def test_kubectl(tmp_path: Path) -> None:
    """pytest reports where the recording of a failed test is; kubectl reads it, and cannot
    write."""
    (tmp_path / "test_suite.py").write_text(SUITE)
    plugins = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    options = ("-q", *plugins, f"--kapiserver-record={tmp_path / 'recordings'}")
    report = subprocess.run(
        [sys.executable, "-m", "pytest", *options], cwd=tmp_path, capture_output=True, text=True
    ).stdout
    command = re.search(r"kapiserver replay (\S+)", report)
    assert command is not None, report
    assert Path(command[1]).parent == tmp_path / "recordings"
    arguments = ("replay", command[1], "--kubeconfig-out=kubeconfig")
    program = [sys.executable, "-m", "kapiserver", *arguments]
    with subprocess.Popen(program, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as replay:
        assert replay.stdout is not None
        config = replay.stdout.readline().strip().removeprefix("export KUBECONFIG=")
        assert config == str(tmp_path / "kubeconfig")
        kubectl = [str(kubectls()[0]), f"--kubeconfig={config}"]
        completed = subprocess.run([*kubectl, "get", "cm"], capture_output=True, text=True)
        assert re.search(r"^m\s", completed.stdout, re.M), completed
        refused = subprocess.run([*kubectl, "delete", "cm", "m"], capture_output=True, text=True)
        assert "a recording is served read-only" in refused.stderr
        replay.terminate()
        assert replay.wait(60) == 0
