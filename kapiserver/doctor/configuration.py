"""Checks of the configuration: would a server start, where does it listen, what is unsafe."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from kapiserver import cluster
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.credentials import ensure_certificates
from kapiserver.doctor.finding import ERROR, INFO, WARNING, Problem
from kapiserver.doctor.installation import Installation
from kapiserver.storage.backends import MEMORY, backend_of, etcd_endpoints

_UNSAFE_MODE = "AlwaysAllow"


def unusable_settings(installation: Installation) -> Iterator[Problem]:
    """Open a cluster with these settings and an empty store in memory, which reads every file that
    a flag names."""
    with tempfile.TemporaryDirectory(prefix="kapiserver-") as name, _quiet():
        config = installation.config.replace(storage=f"sqlite:{MEMORY}", cert_dir=Path(name))
        try:
            _check_storage(installation.config.store.storage)
            ensure_certificates(config, Path(name)).server_context()
            asyncio.run(_open(config))
        except Exception as error:  # of whatever part reads the file
            yield Problem(
                severity=ERROR,
                about="kapiserver serve",
                message=f"does not start with these flags: {error}",
                remedy="mend the file or the flag",
            )


def _check_storage(storage: str) -> None:
    """Raise ValueError for a store that no backend opens."""
    if backend_of(storage).name == "etcd":
        etcd_endpoints(storage.partition(":")[2])


async def _open(config: Config) -> None:
    async with cluster.open_cluster(config):
        pass


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Leave out the log of the server that is tried."""
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)


def unusable_ports(installation: Installation) -> Iterator[Problem]:
    """Bind the ports, if no server of these settings runs."""
    serving = installation.config.serving
    ports = [(serving.bind_address, serving.secure_port), ("127.0.0.1", serving.insecure_port)]
    if installation.is_running:
        return
    for address, port in ports:
        if not port:
            continue
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, port))
            except OSError as error:
                yield Problem(
                    severity=ERROR,
                    about=f"{address}:{port}",
                    message=f"the server cannot listen here: {os.strerror(error.errno or 0)}",
                    remedy=_port_remedy(error),
                )


def _port_remedy(error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return "end the program that has the port (see `ss -ltnp`), or choose another port"
    if error.errno == errno.EACCES:
        return "choose a port from 1024, or give the server the capability CAP_NET_BIND_SERVICE"
    return "choose an address of this machine for --bind-address"


def unsafe_settings(installation: Installation) -> Iterator[Problem]:
    """Look for settings that let everybody in, or lose data."""
    config = installation.config
    if _UNSAFE_MODE in (config.authorization.authorization_mode or ()):
        anonymous = config.authentication.anonymous_auth
        yield Problem(
            severity=ERROR if anonymous else WARNING,
            about="--authorization-mode=AlwaysAllow",
            message="everybody who reaches the port may do everything, without credentials"
            if anonymous
            else "every user may do everything",
            remedy="use --authorization-mode=Node,RBAC",
        )
    if config.serving.insecure_port is not None:
        yield Problem(
            severity=WARNING,
            about="--insecure-port",
            message="every program on this machine is an administrator of the cluster",
            remedy="use the kubeconfig and HTTPS, except for tests",
        )
    if config.sqlite.unsafe_no_fsync:
        yield Problem(
            severity=WARNING,
            about="--unsafe-no-fsync",
            message="a power failure may damage the store",
            remedy="leave the flag out, except for tests",
        )
    if urlsplit(config.store.storage).password:
        yield Problem(
            severity=WARNING,
            about="--storage",
            message="every user of this machine may read the password in the command line",
            remedy="put it into ~/.pgpass, a file that the parameter passfile names, or PGPASSWORD",
        )
    if config.store.storage.endswith(MEMORY):
        yield Problem(
            severity=WARNING,
            about=f"--storage={config.store.storage}",
            message="all objects are lost when the server ends",
            remedy="leave the flag out, except for tests",
        )
    if config.authentication.token_auth_file is not None:
        yield Problem(
            severity=INFO,
            about="--token-auth-file",
            message="its tokens never expire",
            remedy="prefer client certificates or an OpenID Connect issuer",
        )
    if config.store.encryption_provider_config is None:
        yield Problem(
            severity=INFO,
            about="--encryption-provider-config",
            message="is not set: Secrets are stored unencrypted",
            remedy="encrypt them if others can read the disk or its backups",
        )
