"""Serves groups over gRPC: a private Unix socket for each version of a group, and TCP with mutual
TLS.

Sockets are named `<project>-<group>-<version>.sock`. Besides the groups of each project, the group
`discovery` lists them. Only this module loads `endpoint.py`, and with it grpcio.
"""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kapiserver.apiserver.user import AUTHENTICATED, MASTERS, User
from kapiserver.rpc.calls import GroupRunner, Limits
from kapiserver.rpc.groups.discovery import server as discovery
from kapiserver.rpc.groups.discovery.registration_generated import GROUP as DISCOVERY
from kapiserver.rpc.registration import Group, Version, endpoint_name
from kapiserver.rpc.relay import Relay
from kapiserver.rpc.sockets import SocketFile

if TYPE_CHECKING:
    import grpc

    from kapiserver.rpc.endpoint import Endpoint

ADMIN = User(name="kubernetes-admin", groups=(MASTERS, AUTHENTICATED))
"""The user of every call over a Unix socket: only the server's own user and root can connect."""

_MAX_CONNECTIONS = 1000
"""The maximum number of connections of each socket."""


class MissingExtra(Exception):
    """grpcio is not installed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TLSFiles:
    """PEM files of a server that requires client certificates.

    client_ca   the CA that signs the certificates of clients
    """

    certificate: Path
    key: Path
    client_ca: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """The addresses at which groups are served.

    socket_dir  directory of the Unix sockets; None for no sockets
    tcp         `HOST:PORT` of a port for all groups; "" for none
    tls         the files for `tcp`, which needs them
    """

    socket_dir: Path | None = None
    tcp: str = ""
    tls: TLSFiles | None = None


@dataclass(frozen=True, slots=True)
class Listening:
    """The sockets, and the TCP port or 0."""

    sockets: Sequence[Path]
    port: int


@asynccontextmanager
async def serve_rpc(
    runners: Sequence[GroupRunner], addresses: Addresses, *, grace: float = 10.0
) -> AsyncIterator[Listening]:
    """Serve the groups until the block ends, then let running calls finish within `grace` seconds.

    Raises MissingExtra, SocketInUse, ValueError for addresses that cannot be served, OSError.
    """
    check_extra()
    async with AsyncExitStack() as stack:
        sockets, port = [], 0
        if addresses.socket_dir is not None:
            services = _services([*runners, *_discoveries(runners)])
            _check_unix_sockets(addresses.socket_dir, services)
            private = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapiserver-")))
            for number, (runner, version) in enumerate(services):
                path = addresses.socket_dir / f"{endpoint_name(runner.group, version)}.sock"
                target = private / str(number)
                await _serve_socket(stack, path, target, runner, version, grace)
                sockets.append(path)
        if addresses.tcp:
            groups = [runner.group for runner in runners]
            services = _services([*runners, _discovery(groups, DISCOVERY.project)])
            port = await _serve_tcp(stack, services, addresses, grace)
        yield Listening(sockets, port)


def _services(runners: Sequence[GroupRunner]) -> list[tuple[GroupRunner, Version]]:
    return [(runner, version) for runner in runners for version in runner.group.versions]


def _discoveries(runners: Sequence[GroupRunner]) -> list[GroupRunner]:
    """Return the runner of a group discovery for each project, which lists the project's groups."""
    by_project: dict[str, list[Group]] = {}
    for runner in runners:
        by_project.setdefault(runner.group.project, []).append(runner.group)
    return [_discovery(groups, project) for project, groups in by_project.items()]


def _discovery(groups: Sequence[Group], project: str) -> GroupRunner:
    make = functools.partial(discovery.Server, groups)
    return GroupRunner(replace(DISCOVERY, project=project, server_class=make), Limits())


def check_extra() -> None:
    """Raise MissingExtra unless grpcio is installed."""
    try:
        import grpc  # noqa: F401 - whether it is there
        import grpc_health  # noqa: F401 - whether it is there
        import grpc_reflection  # noqa: F401 - whether it is there
    except ImportError as error:
        raise MissingExtra(
            f"serving RPC needs the package {error.name}: pip install 'kapiserver[rpc]'"
        ) from None


def _check_unix_sockets(folder: Path, services: Sequence[tuple[GroupRunner, Version]]) -> None:
    if os.name == "nt":
        pipes = ", ".join(
            rf"\\.\pipe\{endpoint_name(runner.group, version)}" for runner, version in services
        )
        raise ValueError(f"grpcio serves no named pipes ({pipes}); serve TCP instead")
    names = [endpoint_name(runner.group, version) for runner, version in services]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(
            f"two groups would have the same socket in {folder}: {', '.join(duplicates)}"
        )


async def _serve_socket(
    stack: AsyncExitStack,
    path: Path,
    target: Path,
    runner: GroupRunner,
    version: Version,
    grace: float,
) -> None:
    from kapiserver.rpc.endpoint import Endpoint

    file = SocketFile(path)
    endpoint = Endpoint([(runner, version)], lambda _context: ADMIN)
    relay = Relay(file, target, max_connections=_MAX_CONNECTIONS)
    stack.push_async_callback(_stop, relay, endpoint, grace)
    await endpoint.start(f"unix:{target}")
    relay.start()


async def _stop(relay: Relay, endpoint: Endpoint, grace: float) -> None:
    await relay.stop_accepting()
    await endpoint.stop(grace)
    relay.close()


async def _serve_tcp(
    stack: AsyncExitStack,
    services: Sequence[tuple[GroupRunner, Version]],
    addresses: Addresses,
    grace: float,
) -> int:
    from kapiserver.rpc.endpoint import Endpoint

    if addresses.tls is None:
        raise ValueError("RPC over TCP needs a certificate, its key and the CA of the clients")
    names = [version.full_service for _, version in services]
    duplicates = sorted({name for name in names if names.count(name) > 1})
    if duplicates:
        raise ValueError(
            f"one port cannot serve two groups with the same service: {', '.join(duplicates)}"
        )
    endpoint = Endpoint(services, _certificate_user, credentials=_credentials(addresses.tls))
    try:
        port = await endpoint.start(addresses.tcp)
    except RuntimeError as error:  # grpcio has no class of its own for it
        raise OSError(f"cannot listen on {addresses.tcp}: {error}") from None
    stack.push_async_callback(endpoint.stop, grace)
    return port


def _credentials(files: TLSFiles) -> grpc.ServerCredentials:
    import grpc

    return grpc.ssl_server_credentials(
        [(files.key.read_bytes(), files.certificate.read_bytes())],
        root_certificates=files.client_ca.read_bytes(),
        require_client_auth=True,
    )


def _certificate_user(context: Any) -> User:
    """Return the user of a verified client certificate."""
    certificates = context.auth_context().get("x509_pem_cert") or [b""]
    return _user_of_certificate(certificates[0])


@functools.lru_cache(maxsize=256)
def _user_of_certificate(pem: bytes) -> User:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_pem_x509_certificate(pem).subject

    def values(oid: x509.ObjectIdentifier) -> list[str]:
        return [str(attribute.value) for attribute in subject.get_attributes_for_oid(oid)]

    names, organizations = values(NameOID.COMMON_NAME), values(NameOID.ORGANIZATION_NAME)
    return User(name=names[0] if names else "", groups=(*organizations, AUTHENTICATED))
