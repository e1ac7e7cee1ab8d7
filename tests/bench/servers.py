"""The processes under load: a kapiserver or a kube-apiserver with TLS, and the etcd below it.

etcd and PostgreSQL sync to disk as in production; their CPU and memory are counted apart. SIGTERM
ends a bench like an error, so that its processes end with it.
"""

import contextlib
import http.client
import os
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.client import Target
from tests.bench.counters import Perf, counts_events
from tests.bench.measures import Figures
from tests.bench.processes import cpu_seconds, resident_mib
from tests.storage.etcd_server import free_port, program
from tests.storage.postgresql_server import Server as PostgresqlServer

ROOT = Path(__file__).parent.parent.parent
TOKEN = "bench-token"
PROGRAM = (sys.executable, "-m", "kapiserver.cli")
STORES = ("sqlite", "etcd", "postgresql", "postgresql-tcp")
"""PostgreSQL is reached by its Unix socket, as libpq does on the same machine, or by TCP."""
STOP_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The store of a server: its flags, and the processes that it runs in."""

    flags: list[str] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)


@contextlib.contextmanager
def store(kind: str, folder: Path) -> Iterator[Store]:
    """A fresh store, removed at the end."""
    _exit_on_sigterm()
    if kind == "sqlite":
        yield Store()
        return
    if kind.startswith("postgresql"):
        server = PostgresqlServer(["-c", "fsync=on"])
        server.start()
        url = server.url if kind == "postgresql-tcp" else server.local_url
        try:
            yield Store(flags=["--storage", url], pids=[server.pid])
        finally:
            server.remove()
        return
    client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
    command = [
        str(program()), f"--data-dir={folder / 'etcd'}", "--log-level=error",
        f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}", "--quota-backend-bytes=8589934592",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait(process, lambda: _healthy(client))
        yield Store(flags=["--etcd-servers", client], pids=[process.pid])
    finally:
        _end(process)


@contextlib.contextmanager
def server(
    folder: Path,
    below: Store,
    flags: list[str],
    *,
    tree: Path = ROOT,
    users: str = "",
    program: Sequence[str] = PROGRAM,
) -> Iterator[tuple[Target, Figures]]:
    """A kapiserver process over the store until the block ends, and the cost of its start. `tree`
    is the checkout whose code runs, `users` are further lines of the file of tokens, and `program`
    runs the command line."""
    port = free_port()  # another bench may run at the same time
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n{users}')
    command = [
        *program, "serve",
        "--bind-address", "127.0.0.1", "--secure-port", str(port),
        "--data-dir", str(folder / "data"), "--cert-dir", str(folder / "certificates"),
        "--token-auth-file", str(folder / "tokens.csv"),
        "--kubeconfig-out", str(folder / "kubeconfig"), *below.flags, *flags,
    ]  # fmt: skip
    environment = os.environ | {"PYTHONPATH": str(tree)}
    ca_file = folder / "certificates" / "ca.crt"
    with _running(command, port, ca_file, below, cwd=tree, env=environment) as running:
        yield running


@contextlib.contextmanager
def peer(
    program_file: Path, folder: Path, below: Store, flags: list[str], *, users: str = ""
) -> Iterator[tuple[Target, Figures]]:
    """A kube-apiserver over an etcd until the block ends, and the cost of its start. `users` are
    further lines of the file of tokens."""
    port = free_port()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n{users}')
    key = folder / "accounts.key"
    if not key.exists():
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"], check=True, stderr=subprocess.DEVNULL
        )
    certificates = folder / "certificates"
    command = [
        str(program_file), "--bind-address=127.0.0.1", f"--secure-port={port}",
        f"--cert-dir={certificates}", f"--token-auth-file={folder / 'tokens.csv'}",
        "--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-signing-key-file={key}", f"--service-account-key-file={key}",
        *below.flags, *flags,
    ]  # fmt: skip
    with _running(command, port, certificates / "apiserver.crt", below) as running:
        yield running


@contextlib.contextmanager
def _running(
    command: list[str], port: int, ca_file: Path, below: Store, **options: Any
) -> Iterator[tuple[Target, Figures]]:
    _exit_on_sigterm()
    start = time.perf_counter()
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options
    )
    try:
        wait_ready(process, port)
        started = {
            "wall s": time.perf_counter() - start,
            "server s": cpu_seconds([process.pid]),
            "MiB": resident_mib([process.pid]),
        }
        target = Target(
            host="127.0.0.1",
            port=port,
            token=TOKEN,
            ca_file=str(ca_file),
            pids=[process.pid],
            store_pids=below.pids,
            counter=Perf([process.pid]) if counts_events() else None,
        )
        yield target, started
    finally:
        _end(process)


def _exit_on_sigterm() -> None:
    """Let SIGTERM, as `timeout` sends it, raise SystemExit in this process."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process: by SIGKILL if it drains for too long."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _wait(process, ready) -> None:
    while not ready():
        if process.poll() is not None:
            raise SystemExit(f"{process.args[0]} ended with {process.returncode}")
        time.sleep(0.005)


def wait_ready(process, port: int) -> None:
    """Return when the server is ready."""
    _wait(process, lambda: _ready(port))


def _ready(port: int) -> bool:
    connection = http.client.HTTPSConnection(
        "127.0.0.1", port, timeout=5, context=ssl._create_unverified_context()
    )
    return _is_ok(connection, "/readyz")


def _healthy(url: str) -> bool:
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
    return _is_ok(connection, "/health")


def _is_ok(connection: http.client.HTTPConnection, path: str) -> bool:
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
