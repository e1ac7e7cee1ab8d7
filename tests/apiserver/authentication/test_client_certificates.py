"""Client certificates of users and of front proxies, over real TLS connections."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kapiserver.apiserver.authentication import client_authorities
from kapiserver.apiserver.config import Config
from kapiserver.app import RunningServer, serve

UID = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
REVIEW = "/apis/authentication.k8s.io/v1/selfsubjectreviews"


def subject(name: str, groups: Any = (), uids: Any = ()) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    attributes += [x509.NameAttribute(UID, uid) for uid in uids]
    if name:
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    return x509.Name(attributes)


class Authority:
    """A CA; `file` has its certificate, which another CA may have signed."""

    def __init__(self, folder: Path, name: str, issuer: Authority | None = None) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = subject(name)
        self.file = folder / f"{name}.crt"
        issuer = issuer or self
        certificate = (
            issuer._builder(self.name, self.key, days=10)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(issuer.key, hashes.SHA256())
        )
        self.file.write_bytes(certificate.public_bytes(Encoding.PEM))

    def _builder(self, name: x509.Name, key: Any, days: float) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self.name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=days))
        )

    def issue(self, name: str, groups: Any = (), uids: Any = ()) -> Path:
        """Return a file with a new client certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = (
            self._builder(subject(name, groups, uids), key, days=5)
            .add_extension(usage, critical=False)
            .sign(self.key, hashes.SHA256())
        )
        file = self.folder / f"client-{certificate.serial_number}.pem"
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        file.write_bytes(certificate.public_bytes(Encoding.PEM) + private)
        return file


@dataclass
class Connection:
    """A TLS connection of one client, which stays open."""

    http: http.client.HTTPSConnection

    async def user(self, *headers: tuple[str, str]) -> Any:
        """The user who the server says the client is; None for a 401."""
        return await asyncio.to_thread(self._user, headers)

    def _user(self, headers: Any) -> Any:
        self.http.putrequest("POST", REVIEW)
        body = b"{}"
        for name, value in (
            ("Content-Type", "application/json"), ("Content-Length", str(len(body))), *headers,
        ):  # fmt: skip
            self.http.putheader(name, value)
        self.http.endheaders(body)
        response = self.http.getresponse()
        tree = json.loads(response.read())
        if response.status == 401:
            return None
        assert response.status == 201, tree
        user = tree["status"]["userInfo"]
        user.get("extra", {}).pop("authentication.kubernetes.io/credential-id", None)
        return user


Connect = Callable[[Path], Connection]


def run(
    folder: Path, check: Callable[[RunningServer, Connect], Awaitable[None]], **settings: Any
) -> None:
    connections: list[Connection] = []

    async def main() -> None:
        async with serve(Config.of(cert_dir=folder / "server", **settings)) as running:

            def connect(file: Path) -> Connection:
                context = ssl.create_default_context(cafile=str(running.ca_file))
                context.load_cert_chain(file)
                port = int(running.url.rpartition(":")[2])
                client = http.client.HTTPSConnection("127.0.0.1", port, context=context)
                connections.append(Connection(client))
                return connections[-1]

            try:
                await check(running, connect)
            finally:
                for each in connections:
                    each.http.close()
        for _ in range(20):  # later turns of the loop close the connections
            await asyncio.sleep(0)

    asyncio.run(main())


def test_uid(tmp_path: Path) -> None:
    """An attribute of the subject is the user's uid; several, or an empty one, are refused."""
    users = Authority(tmp_path, "users")

    async def check(_: RunningServer, connect: Connect) -> None:
        groups = ["a", "system:authenticated"]
        jane = connect(users.issue("jane", ("a",), ("7",)))
        assert await jane.user() == {"username": "jane", "uid": "7", "groups": groups, "extra": {}}
        assert await connect(users.issue("jane", (), ("7", "8"))).user() is None

    run(tmp_path, check, client_ca_file=users.file)


def test_intermediate_authority(tmp_path: Path) -> None:
    """An intermediate CA can be trusted without its root."""
    users = Authority(tmp_path, "users", issuer=Authority(tmp_path, "root"))

    async def check(_: RunningServer, connect: Connect) -> None:
        jane = await connect(users.issue("jane")).user()
        assert jane["username"] == "jane"

    run(tmp_path, check, client_ca_file=users.file)


HEADERS: dict[str, Any] = {
    "requestheader_username_headers": ("X-Remote-User", "X-Other-User"),
    "requestheader_uid_headers": ("X-Remote-Uid",),
    "requestheader_group_headers": ("X-Remote-Group",),
    "requestheader_extra_headers_prefix": ("X-Remote-Extra-",),
}


def test_front_proxy(tmp_path: Path) -> None:
    """A proxy with a certificate of its CA and an allowed name names the user; nobody else does.
    The proxy is not a user itself."""
    users, proxies = Authority(tmp_path, "users"), Authority(tmp_path, "proxies")
    sent = (
        ("X-Remote-User", "jane"), ("X-Remote-Uid", "7"), ("X-Remote-Group", "a"),
        ("x-remote-group", "b"), ("X-Remote-Extra-Example.com%2fScope", "s"),
        ("X-Remote-Extra-example.com%2fscope", "t"),
    )  # fmt: skip

    async def check(_: RunningServer, connect: Connect) -> None:
        proxy = connect(proxies.issue("proxy"))
        assert await proxy.user(*sent) == {
            "username": "jane",
            "uid": "7",
            "groups": ["a", "b", "system:authenticated"],
            "extra": {"example.com/scope": ["s", "t"]},
        }
        other = await proxy.user(("X-Other-User", "joe"))
        assert (other["username"], other["groups"]) == ("joe", ["system:authenticated"])
        assert await proxy.user() is None  # a proxy names no user
        user = await connect(users.issue("proxy")).user(*sent)
        assert (user["username"], user.get("uid")) == ("proxy", None)
        assert await connect(proxies.issue("stranger", ("system:masters",))).user(*sent) is None

    run(
        tmp_path,
        check,
        client_ca_file=users.file,
        requestheader_client_ca_file=proxies.file,
        requestheader_allowed_names=("proxy",),
        **HEADERS,
    )


def test_headers_without_proxy(tmp_path: Path) -> None:
    """Without --requestheader-client-ca-file the headers mean nothing."""
    users = Authority(tmp_path, "users")

    async def check(_: RunningServer, connect: Connect) -> None:
        user = await connect(users.issue("joe")).user(("X-Remote-User", "jane"))
        assert user["username"] == "joe"

    run(tmp_path, check, client_ca_file=users.file, **HEADERS)


@pytest.mark.parametrize("unusable", [b"", b"no certificate", None])
def test_removed_authority(
    tmp_path: Path, unusable: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client whose CA is removed gets 401 on its open connection at the next look at the files;
    an unusable file changes nothing."""
    users, others = Authority(tmp_path, "users"), Authority(tmp_path, "others")
    both_authorities = tmp_path / "both.crt"
    both_authorities.write_bytes(users.file.read_bytes())

    async def check(_: RunningServer, connect: Connect) -> None:
        jane = connect(users.issue("jane"))
        assert (await jane.user())["username"] == "jane"
        if unusable is None:
            both_authorities.unlink()
        else:
            both_authorities.write_bytes(unusable)
        assert (await jane.user())["username"] == "jane"
        both_authorities.write_bytes(others.file.read_bytes())
        os.utime(both_authorities, (1, 1))
        assert await jane.user() is None

    monkeypatch.setattr(client_authorities, "CHECK_SECONDS", 0)
    run(tmp_path, check, client_ca_file=both_authorities)


def test_expired_certificate(tmp_path: Path) -> None:
    """A certificate that expires while its connection is open authenticates no more."""
    users = Authority(tmp_path, "users")

    async def check(running: RunningServer, connect: Connect) -> None:
        jane = connect(users.issue("jane"))
        assert (await jane.user())["username"] == "jane"
        clock = running.cluster.server.clock
        now = clock.now
        object.__setattr__(clock, "now", lambda: now() + 6 * 24 * 3600)
        assert await jane.user() is None

    run(tmp_path, check, client_ca_file=users.file)
