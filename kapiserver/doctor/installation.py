"""The installation: what the checks know of a server on this machine without asking it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.serving.tls.settings import Pair, parse_named_pair
from kapiserver.storage.backends import MEMORY
from kapiserver.storage.concurrency.clock import Clock


class Installation(Struct, frozen=True, kw_only=True, dict=True):
    """The settings with which `kapiserver serve` starts.

    data_dir    the directory of the files that no flag names
    clock       the time of this machine
    is_running  whether a server answers at the address of its kubeconfig
    """

    config: Config
    data_dir: Path
    clock: Clock
    is_running: bool

    @property
    def now(self) -> datetime:
        """The time of this machine."""
        return datetime.fromtimestamp(self.clock.now(), UTC)

    @property
    def cert_dir(self) -> Path:
        """The folder of the server's own CA."""
        return self.config.certificates.cert_dir or self.data_dir / "certificates"

    @property
    def sqlite_file(self) -> Path | None:
        """The file of the store; None for a store in memory or in etcd, and before the first
        start."""
        backend, _, address = self.config.store.storage.partition(":")
        is_file = backend == "sqlite" and address != MEMORY
        return Path(address) if is_file and Path(address).is_file() else None

    @property
    def sqlite_folder(self) -> Path | None:
        """The folder of the store's file, which the server creates; None for another store."""
        backend, _, address = self.config.store.storage.partition(":")
        return Path(address).parent if backend == "sqlite" and address != MEMORY else None

    @property
    def etcd_endpoints(self) -> tuple[str, ...]:
        """The URLs of the members of etcd; () if the store is not etcd."""
        backend, _, address = self.config.store.storage.partition(":")
        return tuple(address.split(",")) if backend == "etcd" else ()

    @property
    def postgresql_address(self) -> str:
        """The address of the database, `postgresql://...`; "" if the store is another one."""
        backend, _, address = self.config.store.storage.partition(":")
        return f"postgresql:{address}" if backend in ("postgresql", "postgres") else ""

    @functools.cached_property
    def files(self) -> dict[str, Path]:
        """The files that flags name, by flag."""
        return {
            f"--{name.replace('_', '-')}": value
            for name, value in self.config.settings().items()
            if isinstance(value, Path) and name not in ("cert_dir", "kubeconfig_out")
        }

    def pairs(self) -> Iterator[Pair]:
        """Yield the certificates with their keys: the server's own, and those that flags name."""
        for name in ("ca", "apiserver", "admin"):
            pair = Pair(
                certificate=self.cert_dir / f"{name}.crt", key=self.cert_dir / f"{name}.key"
            )
            if pair.certificate.exists():
                yield pair
        for value in self.config.certificates.tls_sni_cert_key:
            yield parse_named_pair(value).pair
        for flag, file in self.files.items():
            key = self.files.get(key_flag(flag)) if key_flag(flag) != flag else None
            if key is not None:
                yield Pair(certificate=file, key=key)


def key_flag(flag: str) -> str:
    """Return the flag of the key of a certificate: `--etcd-keyfile` of `--etcd-certfile`."""
    if flag == "--tls-cert-file":
        return "--tls-private-key-file"
    for certificate, key in (
        ("-cert-file", "-key-file"),
        ("-certfile", "-keyfile"),
        ("-client-certificate", "-client-key"),
    ):
        if flag.endswith(certificate):
            return flag.removesuffix(certificate) + key
    return flag
