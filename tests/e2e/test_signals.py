"""The signals of a running server, sent to a real process."""

from __future__ import annotations

import http.client
import os
import re
import shutil
import signal
import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from tests.e2e.cluster import CONFIGMAPS, create, open_response
from tests.e2e.programs import ROOT, Server, start, stop, wait_for_log

if sys.platform == "win32":
    pytest.skip("Windows has no such signals", allow_module_level=True)


PATIENT = """
from kapiserver.apiserver.serving import listener
from kapiserver.cli import main

listener.LAST_REQUEST_SECONDS = 60.0
raise SystemExit(main())
"""
"""A server that leaves the clients on a busy machine time for a last request while it drains."""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server of one test."""
    running = start(tmp_path, program=("-c", PATIENT))
    yield running
    if running.process.poll() is None:
        stop(running)


@contextmanager
def connection_to(server: Server) -> Iterator[http.client.HTTPSConnection]:
    """An administrator's connection, which it keeps open."""
    context = ssl.create_default_context(cafile=str(server.ca_file))
    context.load_cert_chain(server.client_cert, server.client_key)
    host = server.url.removeprefix("https://")
    with closing(http.client.HTTPSConnection(host, timeout=30, context=context)) as connection:
        yield connection


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_drain(server: Server, number: signal.Signals) -> None:
    """A watch ends with a complete response, a connection that was idle gets an answer to one more
    request, which says that the connection closes, and the exit code is 0."""
    with (
        connection_to(server) as idle,
        open_response(server, "GET", f"{CONFIGMAPS}?watch=1") as (watch),
    ):
        idle.request("GET", "/readyz")
        first = idle.getresponse()
        assert (first.read(), first.getheader("Connection")) == (b"ok", None)
        server.process.send_signal(number)
        while watch.readline():  # raises if the last chunk is missing
            pass
        idle.request("GET", "/readyz")
        last = idle.getresponse()
        assert (last.status, last.getheader("Connection")) == (500, "close")
        assert last.read()
        assert idle.sock is None
    assert server.process.wait(60) == 0
    assert ("tasks (most recent call last)" in wait_for_log(server, "")) == (
        number == signal.SIGQUIT
    )


def test_no_request_is_cut(server: Server) -> None:
    """Clients that send one request after the other lose none of them when the server stops: each
    gets a complete answer, the last of which says that the connection closes."""
    failures: list[BaseException] = []
    started = [threading.Event() for _ in range(8)]

    def work(answered: threading.Event) -> None:
        try:
            with connection_to(server) as connection:
                closes = False
                while not closes:
                    connection.request("GET", f"{CONFIGMAPS}?limit=1")
                    response = connection.getresponse()
                    assert response.status == 200
                    assert response.read()
                    closes = response.getheader("Connection") == "close"
                    answered.set()
        except BaseException as error:
            failures.append(error)

    clients = [threading.Thread(target=work, args=[event]) for event in started]
    for client in clients:
        client.start()
    for event in started:
        assert event.wait(60)
    server.process.send_signal(signal.SIGTERM)
    for client in clients:
        client.join(60)
    assert server.process.wait(60) == 0
    assert failures == []


def test_hangup_reloads(tmp_path: Path) -> None:
    """After SIGHUP the server has read its files again, and serves on."""
    first = ensure_certificates(Config(), tmp_path / "1")
    second = ensure_certificates(Config(), tmp_path / "2")
    certificate, key, tokens = tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "tokens"

    def install(source: Credentials) -> None:
        chain = (source.serving.certificate, source.ca)  # clients trust the last of the file
        certificate.write_text("".join(path.read_text() for path in chain))
        shutil.copy(source.serving.key, key)

    install(first)
    tokens.write_text("old,ann,1\n")
    server = start(
        tmp_path,
        f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}",
        f"--token-auth-file={tokens}", "-v",
    )  # fmt: skip
    try:
        install(second)
        tokens.write_text("new,ann,1\n")
        server.process.send_signal(signal.SIGHUP)
        wait_for_log(server, "client CAs again")
        context = ssl.create_default_context(cafile=str(second.ca))
        host = server.url.removeprefix("https://")
        with closing(http.client.HTTPSConnection(host, context=context)) as connection:
            for token, status in (("old", 401), ("new", 200)):
                connection.request("GET", "/api", headers={"Authorization": f"Bearer {token}"})
                response = connection.getresponse()
                response.read()
                assert response.status == status
    finally:
        assert stop(server) == 0


def test_closed_terminal(tmp_path: Path) -> None:
    """A server whose terminal is closed drains and ends."""
    import pty

    pid, terminal = pty.fork()
    if not pid:
        flags = ["--data-dir", str(tmp_path), "--secure-port", "0"]
        command = [sys.executable, "-m", "kapiserver.cli", "serve", *flags]
        os.chdir(ROOT)
        os.execv(sys.executable, command)
    try:
        output = b""
        while b"kubectl get namespaces" not in output:
            output += os.read(terminal, 4096)
    finally:
        os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_stacks_and_status(server: Server) -> None:
    """SIGUSR1 writes the stacks of threads and tasks, SIGUSR2 logs the state, and the server serves
    on."""
    with open_response(server, "GET", f"{CONFIGMAPS}?watch=1"):
        server.process.send_signal(signal.SIGUSR1)
        log = wait_for_log(server, "tasks (most recent call last)")
        assert "Stack (most recent call first)" in log
        assert re.search(r"^thread \S.* \(most recent call last\):$", log, re.MULTILINE)
        server.process.send_signal(signal.SIGUSR2)
        log = wait_for_log(server, "msg=status")
        assert "watches=1 " in log
        create(server, "later")
