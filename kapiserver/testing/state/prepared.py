"""Certificates and RBAC's bootstrap policy that all test servers of a process share.

The first server makes them; that takes most of the time of a start. The next servers reuse them.

All test servers of a process have the same CA, and the same uids of the policy's objects.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.private_files import write_private
from kapiserver.storage.sqlite.database import Write
from kapiserver.testing.state.memory_store import MemoryStore, Snapshot

MAX_POLICIES = 16
"""Configurations whose policy is kept, about 200 KB each."""

_RESOURCES = ("clusterrolebindings", "clusterroles", "namespaces", "rolebindings", "roles")
_CERTIFICATES = ("admin", "apiserver", "ca")

_certificates: dict[str, bytes] = {}
"""Contents of the files, by name."""
_policies: dict[Config, Snapshot] = {}


def write_certificates(folder: Path) -> None:
    """Write the files that `keep_certificates` has kept. The server replaces those that do not fit
    its addresses. Raises OSError."""
    for name, data in _certificates.items():
        write_private(folder / name, data)


def keep_certificates(folder: Path) -> None:
    """Keep the certificates of a running server for the next ones, unless there are some."""
    if not _certificates:
        files = [folder / f"{name}.{kind}" for name in _CERTIFICATES for kind in ("crt", "key")]
        if all(file.exists() for file in files):
            _certificates.update({file.name: file.read_bytes() for file in files})


def restore_policy(config: Config, store: MemoryStore) -> bool:
    """Write the policy of a server with this configuration into an empty store; report whether
    there was one."""
    snapshot = _policies.get(_policy_key(config))
    if snapshot is None:
        return False
    store.write_at_once([Write(item.key, item.value, 0) for item in snapshot.items])
    return True


def keep_policy(config: Config, store: MemoryStore) -> None:
    """Keep the policy of a server for the next ones. Call it before the server has clients."""
    key = _policy_key(config)
    if key in _policies or config.store.encryption_provider_config is not None:
        return
    prefixes = tuple(f"{config.store.key_root}/{resource}/" for resource in _RESOURCES)
    snapshot = store.snapshot()
    items = [item for item in snapshot.items if item.key.startswith(prefixes)]
    expiries: Mapping[str, float] = {}
    if len(_policies) >= MAX_POLICIES:
        del _policies[next(iter(_policies))]
    _policies[key] = Snapshot(snapshot.revision, items, expiries)


def _policy_key(config: Config) -> Config:
    """Return the configuration without files and ports of one server."""
    return config.replace(
        cert_dir=None,
        insecure_port=None,
        kubeconfig_out=None,
        secure_port=None,
        token_auth_file=None,
    )
