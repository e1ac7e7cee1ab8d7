"""Several servers on one port and one etcd, of which some restart, some die, and some are of an
earlier version."""

from __future__ import annotations

import signal
import subprocess
import tarfile
from collections.abc import Iterator
from contextlib import ExitStack
from io import BytesIO
from pathlib import Path

import pytest

from tests.e2e.cluster import CONFIGMAPS, Load, call, open_response
from tests.e2e.programs import ROOT, Server, start, stop
from tests.storage.etcd_server import Member, free_port


class Fleet:
    """Servers on one port, or on one each: `start` adds one, and `restart` replaces the oldest."""

    def __init__(
        self, folder: Path, etcd: Member, stack: ExitStack, *, one_port: bool = True
    ) -> None:
        self._folder = folder
        self._etcd = etcd
        self._stack = stack
        self._port_flags: tuple[str, ...] = ()
        if one_port:
            self._port_flags = (f"--secure-port={free_port()}", "--permit-port-sharing")
        self._started = 0
        self.servers: list[Server] = []

    def start(self, *flags: str, program: tuple[str, ...] = ("-m", "kapiserver")) -> Server:
        """Start a server on the port of the others, and wait until it is ready."""
        folder = self._folder / str(self._started)
        folder.mkdir()
        self._started += 1
        server = start(
            folder,
            f"--cert-dir={self._folder / 'certificates'}",
            f"--etcd-servers={self._etcd.url}",
            *self._port_flags,
            *flags,
            program=program,
        )
        self._stack.callback(server.process.kill)
        self.servers.append(server)
        return server

    def restart(self, *flags: str) -> None:
        """Start a new server, and stop the oldest one."""
        self.start(*flags)
        oldest = self.servers.pop(0)
        assert stop(oldest) == 0, (oldest.folder / "log").read_text()

    def load(self) -> Load:
        """Clients of all servers, each request of which has a connection of its own."""
        server = self.servers[0]
        revision = call(server, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
        urls = sorted({each.url for each in self.servers})
        return Load(urls, server, revision)


@pytest.fixture
def fleet(tmp_path: Path, own_etcd: Member) -> Iterator[Fleet]:
    with ExitStack() as stack:
        fleet = Fleet(tmp_path, own_etcd, stack)
        yield fleet
        for server in fleet.servers:
            stop(server)


@pytest.mark.parametrize(
    "flags", [(), pytest.param(("--workers=2",), marks=pytest.mark.slow)], ids=["one", "workers"]
)
def test_rolling_restart(fleet: Fleet, flags: tuple[str, ...]) -> None:
    """A rolling restart under load refuses no connection and loses no request: every write gets a
    response, and a watch that reconnects sees each of them once. So does one of servers with
    several workers each."""
    fleet.start(*flags)
    fleet.start(*flags)
    load = fleet.load()
    with load.running(writers=3):
        fleet.restart(*flags)
        fleet.restart(*flags)
    assert load.refused == 0
    # The system may queue a connection just before a socket closes, and resets it then.
    assert load.failed <= 2 * (2 if flags else 1)
    load.check(fleet.servers[0])


def test_a_server_that_dies(fleet: Fleet) -> None:
    """When a server is killed under load, the others go on: no connection is refused, and no
    acknowledged write is lost. A request that the dead server had is sent again."""
    fleet.start()
    fleet.start()
    load = fleet.load()
    with load.running(writers=3):
        victim = fleet.servers.pop(0)
        victim.process.send_signal(signal.SIGKILL)
        victim.process.wait()
        fleet.start()
    assert load.refused == 0
    load.check(fleet.servers[0])


def healthy(server: Server, path: str) -> bool:
    """Return whether a health check answers with 200, on a connection of its own."""
    with open_response(server, "GET", path) as response:
        response.read()
        return response.status == 200


@pytest.mark.slow
def test_shutdown_delay(tmp_path: Path) -> None:
    """With --shutdown-delay-duration a server that stops reports that it is not ready, and serves
    new connections as before until the delay is over."""
    server = start(tmp_path, "--storage=sqlite::memory:", "--shutdown-delay-duration=10s")
    server.process.send_signal(signal.SIGTERM)
    while healthy(server, "/readyz"):
        assert server.process.poll() is None
    assert healthy(server, "/livez")
    assert not healthy(server, "/readyz/shutdown")
    call(server, "POST", CONFIGMAPS, {"metadata": {"name": "late"}}, status=201)
    assert call(server, "GET", f"{CONFIGMAPS}/late")["metadata"]["name"] == "late"
    assert server.process.poll() is None
    assert server.process.wait(60) == 0


EARLIER = "c713e805"
"""A commit before the first one that knows `--permit-port-sharing`, in place of the release before
this one, since there has been none. A new release replaces it by the tag of the one before."""


@pytest.fixture
def earlier(tmp_path: Path) -> tuple[str, ...]:
    """The earlier version of this repository as a program."""
    archive = subprocess.run(
        ["git", "archive", EARLIER, "kapiserver"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        pytest.skip("the history of the repository is not here")
    folder = tmp_path / "earlier"
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    program = folder / "serve.py"
    program.write_text("import sys\nfrom kapiserver.cli import main\nsys.exit(main())\n")
    return (str(program),)


OBJECTS = {
    "/api/v1/namespaces/default/secrets": {"data": {"a": "Yg=="}},
    "/apis/apps/v1/namespaces/default/deployments": {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        }
    },
    "/apis/batch/v1/namespaces/default/cronjobs": {
        "spec": {
            "schedule": "@daily",
            "jobTemplate": {
                "spec": {
                    "template": {
                        "spec": {
                            "restartPolicy": "Never",
                            "containers": [{"name": "c", "image": "i"}],
                        }
                    }
                }
            },
        }
    },
    "/apis/resource.k8s.io/v1/deviceclasses": {
        "spec": {"selectors": [{"cel": {"expression": "true"}}]}
    },
    "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings": {
        "spec": {"policyName": "p"}
    },
}
"""What each server writes and the others read, by path."""


def check_objects(writer: Server, *readers: Server) -> None:
    """Check that what one server writes, each other one reads and updates, and the first reads."""
    name = f"of-{writer.folder.name}"
    for path, content in OBJECTS.items():
        call(writer, "POST", path, {"metadata": {"name": name}, **content}, status=201)
        for reader in readers:
            obj = call(reader, "GET", f"{path}/{name}")
            obj["metadata"]["labels"] = {"by": reader.folder.name}
            call(reader, "PUT", f"{path}/{name}", obj)
            again = call(writer, "GET", f"{path}/{name}")
            assert again["metadata"]["labels"] == {"by": reader.folder.name}
            assert {key: again[key] for key in content} == {key: obj[key] for key in content}


@pytest.mark.slow
def test_version_skew(tmp_path: Path, own_etcd: Member, earlier: tuple[str, ...]) -> None:
    """An earlier version of this server, this one, and this one with --emulated-version and
    --min-compatibility-version serve one etcd under load: each reads what the others write, and no
    acknowledged write is lost. Then the earlier one is upgraded."""
    with ExitStack() as stack:
        fleet = Fleet(tmp_path, own_etcd, stack, one_port=False)
        old = fleet.start(program=earlier)
        new = fleet.start()
        emulating = fleet.start("--emulated-version=1.36", "--min-compatibility-version=1.34")
        load = fleet.load()
        with load.running(writers=3):
            for writer in fleet.servers:
                readers = [each for each in fleet.servers if each is not writer]
                check_objects(writer, *readers)
        load.check(old)
        load.check(new)
        fleet.restart()
        upgraded = fleet.servers[-1]
        check_objects(upgraded, new, emulating)
        load.check(upgraded)
        for server in fleet.servers:
            assert stop(server) == 0
