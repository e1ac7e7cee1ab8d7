"""Certificates that change while the server runs."""

import asyncio
import hashlib
import http.client
import json
import logging
import shutil
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.serving.tls import Credentials, ensure_certificates
from kapiserver.app import RunningServer, serve


def _certificates(folder: Path) -> Credentials:
    """A CA of its own, and certificates that it signed."""
    return ensure_certificates(Config(), folder)


def _install(source: Credentials, config: Config, *, key: bool = True) -> None:
    """Put a serving certificate, and its key, where the server reads them."""
    assert config.tls_cert_file is not None
    assert config.tls_private_key_file is not None
    shutil.copy(source.serving.certificate, config.tls_cert_file)
    if key:
        shutil.copy(source.serving.key, config.tls_private_key_file)


def _digest(path: Path) -> str:
    der = ssl.PEM_cert_to_DER_cert(path.read_text())
    return hashlib.sha256(der).hexdigest()


class _Client:
    """A connection to a server, which presents the administrator's certificate of some CA."""

    def __init__(
        self,
        running: RunningServer,
        user: Credentials | None = None,
        session: ssl.SSLSession | None = None,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2
        if user is not None:
            self.context.load_cert_chain(user.admin.certificate, user.admin.key)
        port = int(running.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            self.socket = self.context.wrap_socket(plain, session=session)
        der = self.socket.getpeercert(binary_form=True)
        assert der is not None
        self.digest = hashlib.sha256(der).hexdigest()
        self._http = http.client.HTTPConnection("127.0.0.1", port)
        self._http.sock = self.socket

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def user(self) -> str:
        """The user that the server sees."""
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        self._http.request("POST", path, body, {"Content-Type": "application/json"})
        response: Any = json.loads(self._http.getresponse().read())
        return str(response["status"]["userInfo"]["username"])


Connect = Callable[..., Awaitable[_Client]]


Scenario = Callable[[RunningServer, Connect], Awaitable[None]]


def _run(config: Config, scenario: Scenario) -> None:
    """Run a scenario with a server, and close its connections."""

    async def run() -> None:
        async with serve(config) as running:
            with ExitStack() as stack:

                async def connect(*arguments: Any) -> _Client:
                    client = await asyncio.to_thread(_Client, running, *arguments)
                    return stack.enter_context(closing(client))

                await scenario(running, connect)

    asyncio.run(run())


def test_serving_certificate(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A new connection gets the new certificate, and an open one stays. A certificate whose key is
    not there yet is not used, which is logged once."""
    first, second = _certificates(tmp_path / "1"), _certificates(tmp_path / "2")
    config = Config(
        cert_dir=tmp_path / "server",
        tls_cert_file=tmp_path / "tls.crt",
        tls_private_key_file=tmp_path / "tls.key",
    )
    _install(first, config)
    own = _certificates(tmp_path / "server")

    async def check(_: RunningServer, connect: Connect) -> None:
        before = await connect(own)
        assert before.digest == _digest(first.serving.certificate)
        with caplog.at_level(logging.INFO, "kapiserver"):
            _install(second, config, key=False)
            for _ in range(2):
                client = await connect()
                assert client.digest == before.digest
            _install(second, config)
            after = await connect(own)
        assert after.digest == _digest(second.serving.certificate)
        for client in (before, after):
            assert await asyncio.to_thread(client.user) == "kubernetes-admin"

    _run(config, check)
    records = [r for r in caplog.records if r.name.endswith("tls_reload")]
    assert [record.levelname for record in records] == ["ERROR", "INFO"]
    assert "tls.key" in records[0].getMessage()


def test_client_ca(tmp_path: Path) -> None:
    """A client CA that is added is trusted by new connections, and one that is removed is not,
    even if the client resumes its TLS session."""
    first, second = _certificates(tmp_path / "1"), _certificates(tmp_path / "2")
    config = Config(cert_dir=tmp_path / "server", client_ca_file=tmp_path / "ca.crt")
    assert config.client_ca_file is not None
    shutil.copy(first.ca, config.client_ca_file)

    async def check(_: RunningServer, connect: Connect) -> None:
        before = await connect(first)
        assert await asyncio.to_thread(before.user) == "kubernetes-admin"
        session = before.socket.session
        resumed = await connect(None, session, before.context)
        assert resumed.socket.session_reused
        with pytest.raises(ssl.SSLError):
            await connect(second)
        assert config.client_ca_file is not None
        shutil.copy(second.ca, config.client_ca_file)
        added = await connect(second)
        for client in (added, before):
            assert await asyncio.to_thread(client.user) == "kubernetes-admin"
        with pytest.raises(ssl.SSLError):
            await connect(None, session, before.context)

    _run(config, check)


def test_reload_reads_tokens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`reload` reads the token file; an unusable one is logged and changes nothing."""
    tokens = tmp_path / "tokens"
    tokens.write_text("good,ann,1\n")

    async def check(running: RunningServer, _: Connect) -> None:
        async def user(token: str) -> str | None:
            try:
                identity = await running.app.server.authenticator.authenticate_token(token)
            except InvalidCredentials:
                return None
            return identity.user.name

        tokens.write_text("better,bob,2\n")
        running.reload()
        assert (await user("good"), await user("better")) == (None, "bob")
        tokens.write_text("broken\n")
        running.reload()
        assert await user("better") == "bob"

    _run(Config(cert_dir=tmp_path / "server", token_auth_file=tokens), check)
    assert "want at least 3 columns" in caplog.text


def test_not_ready_before_https(tmp_path: Path) -> None:
    """The server is not ready before the HTTPS port listens, not on the plain port either."""
    servers: list[Server] = []

    def capture(server: Server, next_handler: Handler) -> Handler:
        servers.append(server)
        return next_handler

    async def start(port: int) -> None:
        config = Config(cert_dir=tmp_path, secure_port=port, insecure_port=0)
        async with serve(config, filters=(*FILTERS, capture)):
            raise AssertionError("the port is in use")

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="in use"):
            asyncio.run(start(taken.getsockname()[1]))
    assert [server.health.started for server in servers] == [False]
