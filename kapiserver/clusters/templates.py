"""Templates: the objects that a logical cluster has from the start, made once for all clusters.

A new cluster has RBAC's policy, the system namespaces and what else controllers create at the start
of a server: some 200 objects. They are made in a store in memory, saved as one row, and each
cluster lays its own rows over them (`storage/wrappers/overlay_store.py`). So creating a cluster
writes none of them, and ten thousand clusters share their bytes in memory.

A template never changes. A release or a configuration whose objects would differ has a template of
its own; a Cluster names the one that it was created with. Its objects have the time, the uids and
the resource version of the template, in every cluster.
"""

from __future__ import annotations

import asyncio
import hashlib
import zlib
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, suppress

import msgspec
from msgspec import Struct

from kapiserver import __version__
from kapiserver.apiserver.user import APISERVER
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.clusters.credentials import ADMINISTRATORS
from kapiserver.clusters.settings import cluster_config
from kapiserver.control_loops import (
    Loop,
    start_access,
    start_controllers,
    start_repair,
    stop_together,
)
from kapiserver.controllers.endpoints.kubernetes_service import KubernetesService
from kapiserver.controllers.manager import apiserver_context
from kapiserver.host import Host
from kapiserver.parts import Parts
from kapiserver.storage.backends import open_store
from kapiserver.storage.cache.shared_trees import SharedTrees
from kapiserver.storage.concurrency.manual_clock import ManualClock
from kapiserver.storage.encryption.transformers import IDENTITY, GroupResource
from kapiserver.storage.errors import Corrupt, KeyExists
from kapiserver.storage.kv.contract import KV, KeyValue
from kapiserver.storage.wrappers.encryption_store import EncryptedStore
from kapiserver.storage.wrappers.overlay_store import BaseRows

_ROOT = "/template"
_START_SECONDS = 20.0
"""The time in which the controllers of a new cluster have created what they create."""
_TEMPORARY = frozenset(
    (("", "events"), ("events.k8s.io", "events"), ("coordination.k8s.io", "leases"))
)
"""The resources whose objects belong to a moment and not to a cluster."""
_RBAC = "rbac.authorization.k8s.io"


class Template(Struct, frozen=True):
    """The objects of a new cluster.

    shared      the rows that clusters share, and their trees
    copied      the values of the other rows by key without the root, which each cluster gets
    """

    shared: BaseRows
    trees: SharedTrees
    copied: Mapping[str, bytes]


class _Stored(Struct, frozen=True):
    """The values of a template by key, as its row has them."""

    shared: dict[str, bytes]
    copied: dict[str, bytes]


class Templates:
    """The templates of one store.

    current     the name of the template of new clusters
    """

    def __init__(self, kv: KV, management: Cluster, host: Host, *, root: str, ca_text: str) -> None:
        """`root` is the prefix of the keys of templates, `ca_text` the PEM of the CA that signs the
        server's certificate; "" without HTTPS."""
        self._kv = kv
        self._management = management
        self._host = host
        self._root = root
        self._ca_text = ca_text
        self._loaded: dict[str, Template] = {}
        self._loading = asyncio.Lock()
        self.current = self._name()

    async def get(self, name: str) -> Template:
        """Return a template, which is made if it is the current one and no server has
        made it. Raises StorageError, Corrupt if it is not stored."""
        async with self._loading:  # one makes it, the others wait
            template = self._loaded.get(name)
            if template is None:
                template = self._loaded[name] = await self._load(name)
            return template

    def _name(self) -> str:
        """Return a hash of what decides which objects a new cluster has."""
        config = cluster_config(self._management.server.config, root=_ROOT, name="")
        encryption = self._management.encryption
        decisive = (
            __version__,
            config.features,
            config.services,
            config.controller_manager,
            sorted(encryption.covered_resources) if encryption is not None else (),
            self._ca_text,
        )
        data = msgspec.json.encode(decisive, order="deterministic")
        return hashlib.sha256(data).hexdigest()[:16]

    async def _load(self, name: str) -> Template:
        key = f"{self._root}/{name}"
        item = (await self._kv.get(key)).item
        if item is None and name == self.current:
            data = zlib.compress(msgspec.msgpack.encode(await self._make()))
            with suppress(KeyExists):  # another server has made it at the same time
                await self._kv.create(key, data)
            item = (await self._kv.get(key)).item
        if item is None:
            raise Corrupt(f"{key}: the template is not stored")
        try:
            stored = msgspec.msgpack.decode(zlib.decompress(item.value), type=_Stored)
        except (zlib.error, msgspec.MsgspecError) as error:
            raise Corrupt(f"{key}: {error}") from error
        return Template(
            BaseRows(item.revision, stored.shared),
            SharedTrees(stored.shared.values(), item.revision),
            stored.copied,
        )

    async def copy_rows(self, template: Template, root: str) -> None:
        """Create the rows below a root that a new cluster does not share, encrypted. Raises
        StorageError."""
        encryption = self._management.encryption
        for key, value in template.copied.items():
            resource = self._management.server.scheme.resource_at(key.removeprefix("/"))
            transformer = None
            if encryption is not None and resource is not None:
                transformer = encryption.transformer_for(resource.group, resource.name)
            kv = self._kv if transformer is None else EncryptedStore(self._kv, transformer)
            with suppress(KeyExists):  # an earlier attempt, or another server
                await kv.create(f"{root}{key}", value)

    async def _make(self) -> _Stored:
        """Start a cluster in memory, and return the rows of its objects."""
        server = self._management.server
        clock = ManualClock(server.clock.now() - _START_SECONDS)
        config = cluster_config(server.config, root=_ROOT, name="")
        kv = await open_store("sqlite::memory:", clock=clock, root=_ROOT, sections=config)
        parts = Parts(kv=kv, clock=clock)
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(open_cluster(config, parts, self._host))
            await start_access(cluster, stack)
            manager = await start_controllers(cluster, ca_text=self._ca_text)
            service = KubernetesService(apiserver_context(cluster.server), None, 0)
            service.start()
            manager.add(service)
            loops: list[Loop] = [manager, start_repair(cluster), service]
            stack.push_async_callback(stop_together, loops)
            await _bind_administrators(cluster)
            for _ in range(2):  # the second time for what the first one has caused
                await manager.wait_settled()
                clock.advance(_START_SECONDS / 2)
            await manager.wait_settled()
            return self._divide(cluster, (await kv.range(f"{_ROOT}/")).items)

    def _divide(self, cluster: Cluster, items: Sequence[KeyValue]) -> _Stored:
        """Return the rows of objects. Those that are encrypted at rest are not shared, because a
        value decrypts under its own key alone."""
        encryption = self._management.encryption
        stored = _Stored({}, {})
        for item in items:
            key = item.key.removeprefix(_ROOT)
            resource = cluster.server.scheme.resource_at(key.removeprefix("/"))
            if resource is None:
                continue
            name = GroupResource(resource.group, resource.name)
            if name in _TEMPORARY:
                continue
            is_shared = encryption is None or encryption.current_transformer(name) is IDENTITY
            (stored.shared if is_shared else stored.copied)[key] = item.value
        return stored


async def _bind_administrators(cluster: Cluster) -> None:
    """Give the group of the administrator all rights in the cluster."""
    client = cluster.server.client(APISERVER, user_agent="kube-apiserver", authorize=False)
    await client.resource(f"{_RBAC}/v1", "clusterrolebindings").create(
        {
            "metadata": {"name": ADMINISTRATORS},
            "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"apiGroup": _RBAC, "kind": "Group", "name": ADMINISTRATORS}],
        }
    )
