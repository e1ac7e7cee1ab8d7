"""`kapiserver serve --workers N`: several processes on one port, over one etcd."""

import json
import os
import select
import signal
import socket
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.e2e.cluster import (
    CONFIGMAPS,
    WATCH_TIMEOUT_SECONDS,
    Load,
    call,
    create,
    names,
    open_response,
    serving,
    wait_for_workers,
    workers,
)
from tests.e2e.programs import Server, kubectls, run, start, wait_for_log
from tests.storage.etcd_server import Member, free_port

WORKERS = 2


@pytest.fixture
def multi_worker_server(tmp_path: Path, own_etcd: Member) -> Iterator[Server]:
    """A server of several processes."""
    with serving(tmp_path / "many", own_etcd, "/registry", f"--workers={WORKERS}") as server:
        yield server


def test_workers_are_one_server(multi_worker_server: Server, tmp_path: Path) -> None:
    """kubectl and parallel clients see one server, which is ready when all workers are, and SIGTERM
    stops all of them."""
    wait_for_workers(multi_worker_server, WORKERS)
    program = kubectls()[0]
    run(program, multi_worker_server, "create", "configmap", "mine", "--from-literal=a=b")
    for _ in range(4):
        value = run(
            program, multi_worker_server, "get", "configmap", "mine", "-o", "jsonpath={.data.a}"
        )
        assert value == "b"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: create(multi_worker_server, f"c-{number}"), range(40)))
        lists = list(
            threads.map(lambda _: names(call(multi_worker_server, "GET", CONFIGMAPS)), range(8))
        )
    assert {len(item) for item in lists} == {41}


@pytest.mark.slow
def test_limits_hold_for_all_workers(tmp_path: Path, own_etcd: Member) -> None:
    """No more requests are in flight than the flag says, whatever workers they reach."""
    tokens = tmp_path / "tokens.csv"
    tokens.write_text("jane,jane,1\n")
    limits = ("--enable-priority-and-fairness=false", f"--max-mutating-requests-inflight={WORKERS}")
    access = (f"--token-auth-file={tokens}", "--authorization-mode=AlwaysAllow")
    flags = (f"--workers={WORKERS}", *limits, *access)
    with serving(tmp_path / "many", own_etcd, "/registry", *flags) as server, ExitStack() as stack:
        wait_for_workers(server, WORKERS)
        unfinished = [stack.enter_context(unfinished_post(server, "jane")) for _ in range(12)]
        refused = readable_sockets(unfinished, at_least=len(unfinished) - WORKERS)
        assert {each.recv(12) for each in refused} == {b"HTTP/1.1 429"}
        assert len(unfinished) - WORKERS <= len(refused) < len(unfinished)


@contextmanager
def unfinished_post(server: Server, token: str) -> Iterator[ssl.SSLSocket]:
    """The connection of a request whose body does not end."""
    host, _, port = server.url.removeprefix("https://").rpartition(":")
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.maximum_version = ssl.TLSVersion.TLSv1_2  # 1.3 sends tickets, as if it were a response
    head = (
        f"POST {CONFIGMAPS} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    )
    with (
        socket.create_connection((host, int(port)), WATCH_TIMEOUT_SECONDS) as connection,
        context.wrap_socket(connection, server_hostname=host) as secured,
    ):
        secured.sendall(head.encode())
        yield secured


def readable_sockets(sockets: list[ssl.SSLSocket], *, at_least: int) -> list[ssl.SSLSocket]:
    """The sockets that a response has arrived on, when there are as many as that."""
    deadline = time.monotonic() + WATCH_TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        readable, _, _ = select.select(sockets, [], [], 0.05)
        if len(readable) >= at_least:
            return readable
    raise AssertionError("too many requests are in flight")


def test_a_worker_that_dies_is_replaced(multi_worker_server: Server) -> None:
    """When a worker is killed under load, no connection is refused, acknowledged writes are kept, a
    watch that reconnects gets each event once, and a new worker starts."""
    start_revision = call(multi_worker_server, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
    load = Load([multi_worker_server.url], multi_worker_server, start_revision)
    with load.running(writers=3):
        victim = workers(multi_worker_server)[0]
        os.kill(victim, signal.SIGKILL)
        wait_for_workers(multi_worker_server, WORKERS, but=victim)
    load.check(multi_worker_server)
    assert load.refused == 0


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced(multi_worker_server: Server) -> None:
    """A first worker that is stopped is killed and started again, and its controllers run again."""
    wait_for_workers(multi_worker_server, WORKERS)
    victim = workers(multi_worker_server)[0]
    os.kill(victim, signal.SIGSTOP)
    wait_for_log(multi_worker_server, "worker 0 hangs: it was silent for 30 s")
    wait_for_workers(multi_worker_server, WORKERS, but=victim)
    call(
        multi_worker_server, "POST", "/api/v1/namespaces", {"metadata": {"name": "new"}}, status=201
    )
    accounts = "/api/v1/namespaces/new/serviceaccounts?watch=1"
    with open_response(multi_worker_server, "GET", accounts) as stream:
        assert json.loads(stream.readline())["object"]["metadata"]["name"] == "default"


@pytest.mark.slow
def test_rolling_restart_of_workers(multi_worker_server: Server) -> None:
    """When each worker gets SIGTERM in turn under load, no connection is refused, acknowledged
    writes are kept, and a watch that reconnects gets each event once."""
    start_revision = call(multi_worker_server, "GET", CONFIGMAPS)["metadata"]["resourceVersion"]
    load = Load([multi_worker_server.url], multi_worker_server, start_revision)
    first = workers(multi_worker_server)
    with load.running(writers=3):
        for pid in first:
            os.kill(pid, signal.SIGTERM)
            wait_for_workers(multi_worker_server, WORKERS, but=pid)
    assert not {*first} & {*workers(multi_worker_server)}
    assert load.refused == 0
    # The system may queue a connection just before a socket closes, and resets it then.
    assert load.failed <= WORKERS
    load.check(multi_worker_server)


def test_workers_end_with_their_supervisor(tmp_path: Path, own_etcd: Member) -> None:
    """Workers stop when their supervisor is killed."""
    multi_worker_server = start(tmp_path, f"--etcd-servers={own_etcd.url}", f"--workers={WORKERS}")
    pids = workers(multi_worker_server)
    multi_worker_server.process.kill()
    multi_worker_server.process.wait()
    deadline = time.monotonic() + WATCH_TIMEOUT_SECONDS
    while any(Path(f"/proc/{item}").exists() for item in pids):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_workers_that_cannot_start(
    tmp_path: Path, multi_worker_server: Server, own_etcd: Member
) -> None:
    """Workers fail to start with a reason over the embedded store, on a used port, and without
    etcd."""
    port = multi_worker_server.url.rpartition(":")[2]
    unreachable_etcd = f"--etcd-servers=http://127.0.0.1:{free_port()}"
    for flags, message in (
        ([], "--workers above 1 needs etcd or PostgreSQL"),
        ([f"--etcd-servers={own_etcd.url}", f"--secure-port={port}"], "Address already in use"),
        ([unreachable_etcd], r"worker \d exited before it was ready"),
    ):
        with pytest.raises(AssertionError, match=message):
            start(tmp_path, f"--workers={WORKERS}", *flags)


def test_signals(tmp_path: Path, own_etcd: Member) -> None:
    """Workers do what a signal to their supervisor says, and SIGQUIT stops them all with exit code
    0, also if a terminal sends it to every process."""
    server = start(tmp_path, f"--etcd-servers={own_etcd.url}", f"--workers={WORKERS}", "-v")
    for number, text in (
        (signal.SIGUSR2, "msg=status"),
        (signal.SIGUSR1, "asks (most recent call last)"),
        (signal.SIGHUP, "client CAs again"),
    ):
        server.process.send_signal(number)
        wait_for_log(server, text, times=WORKERS)
    create(server, "later")
    for pid in (*workers(server), server.process.pid):
        os.kill(pid, signal.SIGQUIT)
    assert server.process.wait(60) == 0


def test_ctrl_c(tmp_path: Path, own_etcd: Member) -> None:
    """SIGINT to all processes, as a terminal sends it, stops the server with exit code 0."""
    multi_worker_server = start(tmp_path, f"--etcd-servers={own_etcd.url}", f"--workers={WORKERS}")
    for pid in (*workers(multi_worker_server), multi_worker_server.process.pid):
        os.kill(pid, signal.SIGINT)
    assert multi_worker_server.process.wait(WATCH_TIMEOUT_SECONDS) == 0
