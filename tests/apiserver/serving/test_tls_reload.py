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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kapiserver.apiserver.authentication import client_authorities
from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from kapiserver.apiserver.serving.tls.settings import Pair
from kapiserver.app import RunningServer, serve
from kapiserver.parts import Parts


def _certificates(folder: Path) -> Credentials:
    """A CA of its own, and certificates that it signed."""
    return ensure_certificates(Config(), folder)


def _install(source: Credentials, config: Config, *, key: bool = True) -> None:
    """Put a serving certificate, and its key, where the server reads them."""
    assert config.certificates.tls_cert_file is not None
    assert config.certificates.tls_private_key_file is not None
    shutil.copy(source.serving.certificate, config.certificates.tls_cert_file)
    if key:
        shutil.copy(source.serving.key, config.certificates.tls_private_key_file)


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
        name: str | None = None,
    ) -> None:
        self.context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.check_hostname = False
        self.context.verify_mode = ssl.CERT_NONE
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2
        if user is not None:
            self.context.load_cert_chain(user.admin.certificate, user.admin.key)
        port = int(running.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
            self.socket = self.context.wrap_socket(plain, session=session, server_hostname=name)
        der = self.socket.getpeercert(binary_form=True)
        assert der is not None
        self.digest = hashlib.sha256(der).hexdigest()
        self._http = http.client.HTTPConnection("127.0.0.1", port)
        self._http.sock = self.socket

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def user(self) -> str:
        """The user that the server sees, or the message of its error."""
        body = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
        path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
        self._http.request("POST", path, body, {"Content-Type": "application/json"})
        response: Any = json.loads(self._http.getresponse().read())
        if response["kind"] == "Status":
            return str(response["message"])
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
    config = Config.of(
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
    records = [r for r in caplog.records if r.name.endswith("tls.reload")]
    assert [record.levelname for record in records] == ["ERROR", "INFO"]
    assert "tls.key" in records[0].getMessage()


def test_client_ca(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client CA that is added is trusted by new connections. One that is removed is not trusted
    any more, by open connections neither, nor if the client resumes its TLS session."""
    monkeypatch.setattr(client_authorities, "CHECK_SECONDS", 0)
    first, second = _certificates(tmp_path / "1"), _certificates(tmp_path / "2")
    config = Config.of(cert_dir=tmp_path / "server", client_ca_file=tmp_path / "ca.crt")
    assert config.authentication.client_ca_file is not None
    shutil.copy(first.ca, config.authentication.client_ca_file)

    async def check(_: RunningServer, connect: Connect) -> None:
        before = await connect(first)
        assert await asyncio.to_thread(before.user) == "kubernetes-admin"
        session = before.socket.session
        resumed = await connect(None, session, before.context)
        assert resumed.socket.session_reused
        with pytest.raises(ssl.SSLError):
            await connect(second)
        assert config.authentication.client_ca_file is not None
        shutil.copy(second.ca, config.authentication.client_ca_file)
        added = await connect(second)
        assert await asyncio.to_thread(added.user) == "kubernetes-admin"
        assert await asyncio.to_thread(before.user) == "Unauthorized"
        with pytest.raises(ssl.SSLError):
            await connect(None, session, before.context)

    _run(config, check)


def test_resumed_session_beside_front_proxies(tmp_path: Path) -> None:
    """A resumed session has the user of its certificate, though TLS trusts front proxies, too."""
    users, proxies = _certificates(tmp_path / "1"), _certificates(tmp_path / "2")
    config = Config.of(
        cert_dir=tmp_path / "server",
        client_ca_file=users.ca,
        requestheader_client_ca_file=proxies.ca,
    )

    async def check(_: RunningServer, connect: Connect) -> None:
        before = await connect(users)
        assert await asyncio.to_thread(before.user) == "kubernetes-admin"
        resumed = await connect(None, before.socket.session, before.context)
        assert resumed.socket.session_reused
        assert await asyncio.to_thread(resumed.user) == "kubernetes-admin"

    _run(config, check)


def _self_signed(folder: Path, host: str) -> Pair:
    """A certificate, and its key, for one host name."""
    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"common.{host[-6:]}")])
    certificate = x509.CertificateBuilder(
        issuer_name=subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=datetime(2026, 1, 1, tzinfo=UTC),
        not_valid_after=datetime(2126, 1, 1, tzinfo=UTC),
    ).add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
    pair = Pair(certificate=folder / "tls.crt", key=folder / "tls.key")
    pair.certificate.write_bytes(certificate.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM))
    pair.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return pair


def _connect(running: RunningServer, name: str | None, **limits: Any) -> tuple[str, str, str]:
    """Ask for a host name; return the certificate's digest, the version of TLS and the suite."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers(limits.get("ciphers", "ALL:@SECLEVEL=0"))
    context.minimum_version = limits.get("lowest", ssl.TLSVersion.TLSv1_2)
    context.maximum_version = limits.get("highest", ssl.TLSVersion.TLSv1_3)
    port = int(running.url.rpartition(":")[2])
    with (
        socket.create_connection(("127.0.0.1", port), timeout=30) as plain,
        context.wrap_socket(plain, server_hostname=name) as client,
    ):
        der, cipher = client.getpeercert(binary_form=True), client.cipher()
        assert der is not None
        assert cipher is not None
        return hashlib.sha256(der).hexdigest(), str(client.version()), cipher[0]


def test_server_names(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A client gets the certificate for the name that it asks for: explicit names win over those in
    certificates, exact ones over wildcards, earlier certificates over later ones. They are reloaded
    without a restart; client certificates are accepted under each name."""
    hosts = {"a": "a.test", "b": "b.test", "c": "*.c.test", "d": "b.test"}
    a, b, c, d = (_self_signed(tmp_path / name, host) for name, host in hosts.items())
    files = [f"{pair.certificate},{pair.key}" for pair in (a, b, c)]
    values = (
        f"{files[0]}:own.test,*.wild.test,common.b.test",
        *files[1:],
        f"{files[2]}:exact.wild.test",
    )
    config = Config.of(cert_dir=tmp_path / "server", tls_sni_cert_key=values)
    own = _certificates(tmp_path / "server")
    default = own.serving
    digests = {pair: _digest(pair.certificate) for pair in (a, b, c, d, default)}

    async def check(running: RunningServer, connect: Connect) -> None:
        cases = (
            (None, default), ("other.test", default), ("own.test", a), ("OWN.test", a),
            ("x.wild.test", a), ("exact.wild.test", c), ("x.y.wild.test", default),
            ("a.test", default), ("b.test", b), ("x.c.test", c), ("common.b.test", a),
            ("common.c.test", c),
            ("127.0.0.1", default),
        )  # fmt: skip
        for name, expected in cases:
            digest, _, _ = await asyncio.to_thread(_connect, running, name)
            assert digest == digests[expected], name
        shutil.copy(d.certificate, b.certificate)  # the key does not match yet
        digest, _, _ = await asyncio.to_thread(_connect, running, "b.test")
        assert digest == digests[b]
        assert 'invalid SNI cert keypair [1/"' in caplog.text
        shutil.copy(d.key, b.key)
        digest, _, _ = await asyncio.to_thread(_connect, running, "b.test")
        assert digest == digests[d]
        client = await connect(own, None, None, "own.test")
        assert client.digest == digests[a]
        assert await asyncio.to_thread(client.user) == "kubernetes-admin"

    _run(config, check)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
def test_versions_and_ciphers(tmp_path: Path) -> None:
    """Clients below the lowest version, or without a common cipher suite, are refused."""
    suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    tls_1_2 = {"highest": ssl.TLSVersion.TLSv1_2}
    refused: list[tuple[dict[str, Any], dict[str, Any]]] = [
        ({"tls_min_version": "VersionTLS13"}, tls_1_2),
        ({"tls_cipher_suites": ("TLS_AES_128_GCM_SHA256",)}, tls_1_2),
        ({"tls_cipher_suites": (suite,)}, {**tls_1_2, "ciphers": "ECDHE-ECDSA-AES128-GCM-SHA256"}),
        ({}, {"lowest": ssl.TLSVersion.TLSv1, "highest": ssl.TLSVersion.TLSv1_1}),
        ({}, {**tls_1_2, "ciphers": "ECDHE-ECDSA-AES128-SHA"}),
    ]
    for settings, limits in refused:
        config = Config.of(cert_dir=tmp_path, **settings)

        async def check(
            running: RunningServer, _: Connect, limits: dict[str, Any] = limits
        ) -> None:
            with pytest.raises((ssl.SSLError, ConnectionError)):
                await asyncio.to_thread(_connect, running, None, **limits)
            _, version, _ = await asyncio.to_thread(_connect, running, None)
            assert version == "TLSv1.3"

        _run(config, check)

    async def check_suite(running: RunningServer, _: Connect) -> None:
        _, version, cipher = await asyncio.to_thread(_connect, running, None, **tls_1_2)
        assert (version, cipher) == ("TLSv1.2", "ECDHE-ECDSA-AES256-GCM-SHA384")

    _run(Config.of(cert_dir=tmp_path, tls_cipher_suites=(suite,)), check_suite)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"tls_min_version": "TLS12"}, 'unknown tls version "TLS12"'),
        (
            {"tls_cipher_suites": ("TLS_RSA_WITH_RC4_128_SHA",)},
            "Cipher suite TLS_RSA_WITH_RC4_128_SHA not supported or doesn't exist",
        ),
        ({"tls_sni_cert_key": ("a",)}, "expected comma separated certificate and key file paths"),
        ({"tls_sni_cert_key": ("a,b:",)}, "empty names list is not allowed"),
        ({"tls_sni_cert_key": ("a,b",)}, 'invalid SNI cert keypair [0/"a::b"]: cannot use a'),
    ],
)
def test_unusable_settings(settings: dict[str, Any], problem: str, tmp_path: Path) -> None:
    """Settings that cannot be used are refused in kube-apiserver's words."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are compared below
        ensure_certificates(Config.of(**settings), tmp_path).server_context()
    assert str(caught.value).startswith(problem)


def test_reload_reads_tokens(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """`reload` reads the token file; an unusable one is logged and changes nothing."""
    tokens = tmp_path / "tokens"
    tokens.write_text("good,ann,1\n")

    async def check(running: RunningServer, _: Connect) -> None:
        async def user(token: str) -> str | None:
            try:
                identity = await running.cluster.server.authenticator.authenticate_token(token)
            except InvalidCredentials:
                return None
            return identity.user.name

        tokens.write_text("better,bob,2\n")
        running.reload()
        assert (await user("good"), await user("better")) == (None, "bob")
        tokens.write_text("broken\n")
        running.reload()
        assert await user("better") == "bob"

    _run(Config.of(cert_dir=tmp_path / "server", token_auth_file=tokens), check)
    assert "want at least 3 columns" in caplog.text


def test_not_ready_before_https(tmp_path: Path) -> None:
    """The server is not ready before the HTTPS port listens, not on the plain port either."""
    servers: list[Server] = []

    def capture(server: Server, next_handler: Handler) -> Handler:
        servers.append(server)
        return next_handler

    async def start(port: int) -> None:
        config = Config.of(cert_dir=tmp_path, secure_port=port, insecure_port=0)
        async with serve(config, Parts(filters=(*FILTERS, capture))):
            raise AssertionError("the port is in use")

    with socket.socket() as busy_socket:
        busy_socket.bind(("127.0.0.1", 0))
        busy_socket.listen()
        with pytest.raises(OSError, match="in use"):
            asyncio.run(start(busy_socket.getsockname()[1]))
    assert [server.health.started for server in servers] == [False]
