"""Composes logical clusters, and passes each request to the cluster that it is for.

async with open_logical_clusters(management, host, ca_text="") as clusters:
    response = await clusters.handle(request)
    access = await clusters.create("acme")
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

from msgspec import Struct

from kapiserver.api.resource_client import Client, ResourceClient, StatusError
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.configuration_files import BadConfiguration
from kapiserver.apiserver.customresources.custom_resources import APIEXTENSIONS
from kapiserver.apiserver.errors import MisdirectedRequest, ServiceUnavailable
from kapiserver.apiserver.filters.recovery import error_response
from kapiserver.apiserver.health import SERVICE_HOOKS
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.response import AnyResponse
from kapiserver.apiserver.user import APISERVER, User
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.clusters.client_ca import ROOT_NAMESPACE, PemAuthority, ensure_root
from kapiserver.clusters.cluster_kind import (
    CLUSTERS,
    DEFINITION,
    RESOURCE,
    ClusterRecord,
    cluster,
    definition,
    record_of,
)
from kapiserver.clusters.controller import ClusterController, ClusterSpace
from kapiserver.clusters.credentials import NAMESPACE, access_of
from kapiserver.clusters.end_users import authentication_configuration
from kapiserver.clusters.open_clusters import OpenClusters
from kapiserver.clusters.quota import QuotaStore
from kapiserver.clusters.routing import Router, enter
from kapiserver.clusters.running_cluster import RunningCluster
from kapiserver.clusters.settings import account_issuer, cluster_config
from kapiserver.clusters.templates import Templates
from kapiserver.control_loops import start_access, start_controllers
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.writing import create_missing, update_object
from kapiserver.controllers.manager import ControllerManager, apiserver_context
from kapiserver.host import Host
from kapiserver.parts import Parts
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.errors import Conflict, KeyExists, StorageError
from kapiserver.storage.kv.compaction import Compactor
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.wrappers.overlay_store import OverlayStore

_log = logging.getLogger(__name__)

START_SECONDS = 30.0
"""How long a request waits for the start of the server, or for a new cluster."""
ANNOTATION = f"{CLUSTERS.group}/cluster"
"""The annotation of audit events that names the cluster."""


class AdministratorAccess(Struct, frozen=True):
    """How the administrator of a cluster reaches it: the URL of its API, and a bearer token."""

    name: str
    url: str
    token: str


class LogicalClusters:
    """The logical clusters of one server, from `start` to `stop`.

    store   the store of the rows of all clusters
    """

    def __init__(self, management: Cluster, host: Host, kv: KV, *, root: str, ca_text: str) -> None:
        """Take the cluster in which the Cluster objects are, the store of all clusters and the
        prefix of their keys, and the PEM of the CA that signs the server's certificate."""
        server = management.server
        settings = server.config.logical_clusters
        self._management = management
        self._host = host
        self._ca_text = ca_text
        self._templates = Templates(kv, management, host, root=f"{root}/templates", ca_text=ca_text)
        self.store = kv
        self._root = root
        self._marks = f"{root}/open/"
        """The prefix of the keys of rows that name clusters which are open."""
        self._router = Router(settings.logical_cluster_domain)
        self._open_clusters = OpenClusters(
            self._open, self._on_rest, server.clock, settings, server.metrics.clusters
        )
        self._schemes: dict[bool, Scheme] = {}
        """The schemes whose built-in kinds clusters share, by whether they simulate."""
        self._users: dict[str, dict[str, User]] = {}
        """The users of `add_user` by token, by the uid of their cluster."""
        self._controller: ClusterController | None = None
        self._started = asyncio.Event()
        self._tasks = BackgroundTasks[None]()

    async def start(self, url: str, trust: Callable[[str], None] | None) -> ClusterController:
        """Create what the management cluster needs, and start the controller, which the caller
        stops. `url` is that of the server, and `trust` lets TLS accept client certificates of a CA;
        None without HTTPS. Raises StorageError, StatusError."""
        context = apiserver_context(self._management.server, "cluster-controller")
        await _install(context)
        client_root: PemAuthority | None = None
        if trust is not None:
            client_root = await ensure_root(
                context.resource("v1", "secrets", namespace=ROOT_NAMESPACE)
            )
            if client_root is not None:
                trust(client_root.certificate.decode())
        space = ClusterSpace(
            kv=self.store,
            root=self._root,
            url=url,
            templates=self._templates,
            client_root=client_root,
        )
        controller = self._controller = ClusterController(context, space, self._open_clusters)
        controller.start()
        await controller.wait_synced()
        self._started.set()
        self._tasks.start(self._wake_those_that_were_open())
        return controller

    async def stop(self) -> None:
        """Close all clusters."""
        for task in tuple(self._tasks):
            task.cancel()
        await self._open_clusters.close_all()

    @property
    def open_count(self) -> int:
        """The number of clusters that are open in this process."""
        return len(self._open_clusters)

    @property
    def is_settled(self) -> bool:
        """Whether the controllers of the open clusters have nothing to do at this time of the
        clock."""
        return self._open_clusters.is_settled

    def is_open(self, name: str) -> bool:
        """Whether a cluster is open in this process."""
        record = self._running_controller.records.get(name)
        return record is not None and record.uid in self._open_clusters

    # Requests.

    async def handle(self, request: Request) -> AnyResponse:
        """Pass a request to the cluster that it is for; to the management cluster if there is no
        such cluster, which answers as for any path that it does not have."""
        try:
            destination = self._router.destination(request)
        except MisdirectedRequest as error:
            return error_response(self._management.server, request, error)
        if destination is None:
            return await self._management.handle(request)
        try:
            record = await self._find(destination.name)
            if record is None:
                return await self._management.handle(request)
            enter(request, destination)
            use = await self._open_clusters.use(record)
            request.on_complete(lambda _: use.end())
            request.audit.annotations[ANNOTATION] = record.name
            async with use.seats.take():
                try:
                    return await use.running.cluster.handle(request)
                finally:
                    use.running.start_controllers()
        except Exception as error:
            return error_response(self._management.server, request, error)

    async def _find(self, name: str) -> ClusterRecord | None:
        """Return a cluster that requests may enter. Waits for one that is being prepared. Raises
        ServiceUnavailable if that takes too long."""
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._started.wait()
                records = self._running_controller.records
                if name not in records and self.store.shared:  # another server may have created it
                    await self._running_controller.refresh()
                if name not in records:
                    return None
                await self._running_controller.wait_for(name, _is_decided)
        except TimeoutError:
            raise ServiceUnavailable(f'cluster "{name}" is not ready yet') from None
        record = records.get(name)
        return record if record is not None and record.is_open_to_requests else None

    @property
    def _running_controller(self) -> ClusterController:
        assert self._controller is not None
        return self._controller

    # What opens and closes.

    @asynccontextmanager
    async def _open(self, record: ClusterRecord) -> AsyncIterator[RunningCluster]:
        record = self._newest(record) or record  # its settings may have changed
        server, root = self._management.server, record.key_root(self._root)
        credentials = await self._running_controller.credentials(record)
        template = await self._templates.get(record.template)
        users = self._users.setdefault(record.uid, {})
        overlay = OverlayStore(self.store, template.shared, root=root)
        limit = functools.partial(self._max_objects, record)
        parts = Parts(
            cluster_name=record.name,
            clock=server.clock,
            kv=QuotaStore(overlay, self.store, root=root, limit=limit),
            access=access_of(credentials, server.authenticator, self._issuers(record), users),
            audit=server.audit,
            encryption=self._management.encryption,
            shared_trees=template.trees,
            scheme=self._new_scheme(record),
        )
        config = cluster_config(server.config, root=root, name=record.name, nodes=record.nodes)
        async with AsyncExitStack() as stack:
            tenant = await stack.enter_async_context(open_cluster(config, parts, self._host))
            scheme = tenant.server.scheme.without_custom_kinds()
            self._schemes.setdefault(_simulates(record), scheme)
            await start_access(tenant, stack)
            tenant.server.health.finish(*SERVICE_HOOKS)
            start = functools.partial(self._start, tenant, record, credentials.client_ca)
            running = RunningCluster(tenant, start)
            stack.push_async_callback(running.stop_controllers)
            yield running
        if not users or self._newest(record) is None:
            del self._users[record.uid]

    def _newest(self, record: ClusterRecord) -> ClusterRecord | None:
        """Return what the object of a cluster says now; None if it is gone."""
        newest = self._running_controller.records.get(record.name)
        return newest if newest is not None and newest.uid == record.uid else None

    def _new_scheme(self, record: ClusterRecord) -> Scheme | None:
        """Return a scheme for a cluster, which shares the built-in kinds of those opened before;
        None for the first one."""
        scheme = self._schemes.get(_simulates(record))
        return None if scheme is None else scheme.without_custom_kinds()

    def _issuers(self, record: ClusterRecord) -> Tree | None:
        """Return the AuthenticationConfiguration of a cluster; None if it is invalid, as its
        condition says, or if there is none."""
        issuer = account_issuer(self._management.server.config, record.name)
        try:
            return authentication_configuration(record, issuer)
        except BadConfiguration:
            return None

    async def _start(
        self, tenant: Cluster, record: ClusterRecord, client_ca: PemAuthority | None
    ) -> ControllerManager:
        """Start the controllers of a cluster. A row says that it may have work, until it rests: the
        next server opens it if this one is killed."""
        with suppress(KeyExists):
            await self.store.create(self._mark_of(record), b"open")
        has_policy = record.template == self._templates.current
        return await start_controllers(
            tenant,
            has_policy=has_policy,
            ca_text=self._ca_text,
            signing_ca=client_ca,
        )

    def _mark_of(self, record: ClusterRecord) -> str:
        return f"{self._marks}{record.uid}"

    async def _wake_those_that_were_open(self) -> None:
        """Open the clusters that were open when an earlier server was killed."""
        try:
            rows = (await self.store.range(self._marks)).items
        except StorageError as error:
            _log.warning("clusters that were open wait for their next request: %s", error)
            return
        records = {record.uid: record for record in self._running_controller.records.values()}
        for row in rows:
            record = records.get(row.key.removeprefix(self._marks))
            if record is not None and record.is_open_to_requests:
                await self._running_controller.wake(record)

    def _max_objects(self, record: ClusterRecord) -> int | None:
        """Return the quota of a cluster as it is now."""
        return (self._newest(record) or record).max_objects

    async def _on_rest(self, record: ClusterRecord, due: float | None) -> None:
        """Write when a cluster that closes has work next. If the store does not take that, the
        cluster is opened again, and rests later."""
        try:
            await self._running_controller.on_rest(record, due)
            mark = (await self.store.get(self._mark_of(record))).item
            if mark is not None:
                await self.store.delete(mark.key, expected=mark.revision)
        except Conflict:
            pass  # another server has deleted the mark
        except (StorageError, StatusError) as error:
            _log.warning("cluster %s rests, and may have work: %s", record.name, error)
            self._running_controller.wake_later(record)

    # The interface for programs.

    async def create(
        self,
        name: str,
        *,
        max_objects: int | None = None,
        issuers: Sequence[Tree] = (),
        nodes: int | None = None,
    ) -> AdministratorAccess:
        """Create a cluster, and return how its administrator reaches it.

        max_objects how many objects it may have; None: no limit
        issuers     JWTAuthenticators of an AuthenticationConfiguration that know its users
        nodes       how many simulated nodes it has; None: it does not simulate

        Raises StatusError, such as AlreadyExists, or Invalid for a name of other than DNS labels.
        """
        await self._clusters.create(
            cluster(name, max_objects=max_objects, issuers=issuers, nodes=nodes)
        )
        return await self.access(name)

    async def access(self, name: str) -> AdministratorAccess:
        """Return how the administrator of a cluster reaches it. Waits until it is ready. Raises
        StatusError."""
        await self._clusters.get(name)  # or raise that it does not exist
        await self._running_controller.wait_for(name, _is_ready)
        ready = await self._clusters.get(name)
        credentials = await self._running_controller.credentials(record_of(ready))
        return AdministratorAccess(name, ready["status"]["url"], credentials.token)

    async def delete(self, name: str) -> None:
        """Delete a cluster and all that it has; return when it is gone. Raises StatusError."""
        deleted = await self._clusters.get(name)
        uid = deleted["metadata"]["uid"]
        await self._clusters.delete(name)
        await self._running_controller.wait_for(
            name, lambda record: record is None or record.uid != uid
        )

    @asynccontextmanager
    async def opened(self, name: str) -> AsyncIterator[RunningCluster]:
        """Open a cluster, and keep it open until the block ends. Raises KeyError for a name that
        no ready cluster has, and the errors of opening."""
        use = await self._open_clusters.use(self._running_controller.records[name])
        try:
            yield use.running
        finally:
            use.end()

    def add_user(self, name: str, token: str, user: User) -> None:
        """Let a bearer token name a user of a cluster in this process, until `remove_user` or the
        deletion of the cluster. Raises KeyError for a name that no cluster has."""
        uid = self._running_controller.records[name].uid
        self._users.setdefault(uid, {})[token] = user

    def remove_user(self, name: str, token: str) -> None:
        """Forget a token of `add_user`. Idempotent."""
        record = self._running_controller.records.get(name)
        if record is not None:
            self._users.get(record.uid, {}).pop(token, None)

    @functools.cached_property
    def _client(self) -> Client:
        server = self._management.server
        return server.client(APISERVER, user_agent="kapiserver", authorize=False)

    @property
    def _clusters(self) -> ResourceClient:
        return self._client.resource(str(CLUSTERS), RESOURCE)


def _simulates(record: ClusterRecord) -> bool:
    return record.nodes is not None


def _is_decided(record: ClusterRecord | None) -> bool:
    return record is None or record.is_open_to_requests or record.is_terminating


def _is_ready(record: ClusterRecord | None) -> bool:
    return record is not None and record.is_open_to_requests


async def _install(context: ControllerContext) -> None:
    """Create the definition of Cluster, or bring it to that of this release, and the namespace of
    the Secrets; return when clusters are served."""
    desired = definition()
    definitions = context.resource(str(APIEXTENSIONS), "customresourcedefinitions")
    await create_missing(definitions, desired)
    await update_object(definitions, DEFINITION, lambda tree: _with_spec(tree, desired["spec"]))
    namespaces = context.resource("v1", "namespaces")
    await create_missing(namespaces, {"metadata": {"name": NAMESPACE}})
    changed = asyncio.Event()
    custom_resources = context.server.custom_resources
    with custom_resources.subscribe(lambda _names: changed.set()):
        while not context.server.scheme.is_served(CLUSTERS):
            changed.clear()
            await changed.wait()


def _with_spec(tree: Tree, spec: Tree) -> Tree:
    """Return a definition with the fields of a spec; the server has set defaults in others."""
    return {**tree, "spec": {**tree["spec"], **spec}}


@asynccontextmanager
async def open_logical_clusters(
    management: Cluster, host: Host, *, ca_text: str
) -> AsyncIterator[LogicalClusters]:
    """Open the store of the logical clusters until the block ends, which closes them all.

    management  the cluster that has the Cluster objects
    ca_text     PEM of the CA that signs the server's certificate; "" without HTTPS

    Raises the errors of `Host.open_store`.
    """
    config, clock = management.server.config, management.server.clock
    root = config.store.clusters_root
    async with host.open_store(config.replace(etcd_prefix=root), clock) as kv:
        compactor = Compactor(kv, clock, config.store.etcd_compaction_interval, root=root)
        compactor.start()
        clusters = LogicalClusters(management, host, kv, root=root, ca_text=ca_text)
        try:
            yield clusters
        finally:
            await clusters.stop()
            compactor.stop()
