"""An API server in memory, without ports, to which a check applies its objects.

Writes pass the operations, admission plugins, validation and store of `kapiserver serve`. Of the
controllers only those run whose work decides on writes: service accounts of namespaces, the usage
of quotas, aggregated roles.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct

from kapiserver.api.accessors import namespace_of
from kapiserver.api.group import GroupVersion, Resource
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.caller import Warnings
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.feature_gates import parse_feature_gates
from kapiserver.apiserver.internal_client import InternalClient
from kapiserver.apiserver.user import MASTERS, User, with_authenticated
from kapiserver.apiserver.version import emulated_minor
from kapiserver.app import RunningServer, serve
from kapiserver.parts import Parts
from kapiserver.storage.concurrency.clock import SystemClock
from kapiserver.storage.concurrency.time_slice import unlimited_slices
from kapiserver.testing.determinism.identifiers import InlineOffloader
from kapiserver.testing.history.settling import settle
from kapiserver.testing.state.memory_store import MemoryStore, open_memory_store

MANAGER = "kubectl"
"""The field manager of `kubectl apply --server-side`."""
DEFAULT_NAMESPACE = "default"

_CONTROLLERS = (
    "serviceaccount-controller",
    "resourcequota-controller",
    "clusterrole-aggregation-controller",
)
_SERVICE_RANGE = "10.96.0.0/12"
"""The range of kubeadm. That of kube-apiserver has addresses for 254 Services only."""
_ADMINISTRATOR = User(
    name="kubernetes-admin", groups=with_authenticated("kubernetes-admin", (MASTERS,))
)


class Outcome(Struct, frozen=True, kw_only=True):
    """What the server says to a write.

    status      the Status of the refusal; None if the object is stored
    warnings    texts of the Warning headers
    """

    status: Tree | None = None
    warnings: Sequence[str] = ()


class CheckServer:
    """Applies objects as `kubectl apply --server-side` does, as an administrator."""

    def __init__(self, running: RunningServer) -> None:
        self._running = running
        self._warnings = Warnings()
        self._client = InternalClient(
            self.server, _ADMINISTRATOR, user_agent=MANAGER, warnings=self._warnings
        )

    @property
    def server(self) -> Server:
        """The parts of the server."""
        return self._running.cluster.server

    def resource_of(self, tree: Tree) -> Resource:
        """Return the resource of an object. Raises NotRegistered if it is not served, ValueError
        for a malformed apiVersion."""
        version = GroupVersion.parse(tree["apiVersion"])
        return self.server.scheme.resource_of(version.with_kind(tree["kind"]))

    async def apply(self, tree: Tree, resource: Resource, *, dry_run: bool = False) -> Outcome:
        """Apply an object that has a name, or a prefix for one."""
        namespace = (namespace_of(tree) or DEFAULT_NAMESPACE) if resource.namespaced else ""
        objects = self._client.resource(tree["apiVersion"], resource.name, namespace=namespace)
        options = {"fieldValidation": "Strict"} | ({"dryRun": "All"} if dry_run else {})
        self._warnings.texts.clear()
        status = None
        try:
            if tree["metadata"].get("name"):
                await objects.apply(tree, manager=MANAGER, **options)
            else:
                await objects.create(tree, **options)
        except StatusError as error:
            status = error.status
        return Outcome(status=status, warnings=tuple(self._warnings.texts))

    async def settle(self) -> None:
        """Return when controllers, admission and authorizer know what was written."""
        await settle(self.server, self._running.controllers)


@asynccontextmanager
async def open_server(*, release: str = "") -> AsyncIterator[CheckServer]:
    """Start a server until the block ends.

    release     the Kubernetes release to emulate, such as 1.34; "" for the newest

    Raises ValueError for an unknown release.
    """
    config = Config.of(
        secure_port=None,
        insecure_port=None,
        controllers=_CONTROLLERS,
        service_cluster_ip_range=_SERVICE_RANGE,
        emulated_version=release,
        feature_gates=parse_feature_gates("", minor=emulated_minor(release)),
    )
    clock = SystemClock()
    kv: MemoryStore = await open_memory_store(clock)
    parts = Parts(clock=clock, kv=kv, offloader=InlineOffloader())
    with unlimited_slices():  # there are no other requests
        async with serve(config, parts) as running:
            server = CheckServer(running)
            await server.settle()
            yield server
