"""Certificates, RBAC's bootstrap policy and kwok's definitions that all test servers of a process
share.

The first server makes them; that takes most of the time of a start. The next servers reuse them.

All test servers of a process have the same CA, and the same uids of these objects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.private_files import write_private
from kapiserver.storage.kv.contract import KeyValue
from kapiserver.storage.kv.writes import Write
from kapiserver.testing.state.memory_store import MemoryStore, Snapshot

MAX_CONFIGURATIONS = 16
"""Configurations whose objects are kept, about 200 KB each."""

_RESOURCES = ("clusterrolebindings", "clusterroles", "namespaces", "rolebindings", "roles")
_DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
_CERTIFICATES = ("admin", "apiserver", "ca")

_certificates: dict[str, bytes] = {}
"""Contents of the files, by name."""
_policies: dict[Config, list[KeyValue]] = {}
_definitions: dict[Config, list[KeyValue]] = {}


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


def restore_objects(config: Config, store: MemoryStore) -> bool:
    """Write what is kept of servers with this configuration into an empty store; report whether the
    policy was."""
    key = _key(config)
    items = [*_policies.get(key, ()), *_definitions.get(key, ())]
    store.write_at_once([Write(item.key, item.value, 0) for item in items])
    return key in _policies


def keep_policy(config: Config, store: MemoryStore) -> None:
    """Keep the policy of a server for the next ones. Call it before the server has clients."""
    _keep(_policies, config, _RESOURCES, store.snapshot)


def keep_definitions(config: Config, snapshot: Snapshot) -> None:
    """Keep the definitions of kwok's kinds for the next simulating servers. The snapshot is of a
    server whose controllers have accepted them, and which has had no clients."""
    if config.simulation.simulate:
        _keep(_definitions, config, [_DEFINITIONS], lambda: snapshot)


def _keep(
    items_by_config: dict[Config, list[KeyValue]],
    config: Config,
    resources: Sequence[str],
    snapshot: Callable[[], Snapshot],
) -> None:
    """Keep the objects of these resources, unless those of an equal server are kept."""
    key = _key(config)
    if key in items_by_config or config.store.encryption_provider_config is not None:
        return
    prefixes = tuple(f"{config.store.key_root}/{resource}/" for resource in resources)
    if len(items_by_config) >= MAX_CONFIGURATIONS:
        del items_by_config[next(iter(items_by_config))]
    items_by_config[key] = [item for item in snapshot().items if item.key.startswith(prefixes)]


def _key(config: Config) -> Config:
    """Return the configuration without files and ports of one server."""
    return config.replace(
        cert_dir=None,
        insecure_port=None,
        kubeconfig_out=None,
        secure_port=None,
        token_auth_file=None,
    )
