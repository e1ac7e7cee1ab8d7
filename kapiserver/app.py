"""Serves a cluster: starts what runs in it, opens its ports, and drains it.

A host (`host.py`) has what the clusters of a process share, a cluster (`cluster.py`) what an API
has, and `Parts` (`parts.py`) what a program may replace. The layers below know no flag and no
environment.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.apiserver.config import Config
from kapiserver.apiserver.filters.recovery import error_response
from kapiserver.apiserver.health import (
    IDENTITY_HOOK,
    PEER_HOOK,
    PEER_PROXY_HOOKS,
    REPAIR_HOOK,
    SERVICE_HOOKS,
)
from kapiserver.apiserver.http_client.errors import HostPort
from kapiserver.apiserver.identity import server_id
from kapiserver.apiserver.serving.kubeconfig import follow_certificate, write_if_space
from kapiserver.apiserver.serving.server import LOOPBACK, HttpServer, url_host
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from kapiserver.apiserver.serving.tls.reload import ReloadingContext
from kapiserver.cluster import Cluster, open_cluster
from kapiserver.control_loops import (
    Loop,
    start_access,
    start_controllers,
    start_repair,
    stop_together,
)
from kapiserver.controllers.certificates.certificate_authority import FileAuthority
from kapiserver.controllers.endpoints.apiserver_endpoints import ServerAddress
from kapiserver.controllers.endpoints.apiserver_identity import APIServerIdentity
from kapiserver.controllers.endpoints.kubernetes_service import KubernetesService, reached_at
from kapiserver.controllers.loop.controller import AnyController
from kapiserver.controllers.manager import ControllerManager, apiserver_context
from kapiserver.host import Host
from kapiserver.parts import DEFAULT_PARTS, Parts
from kapiserver.storage.kv.compaction import Compactor

if TYPE_CHECKING:
    from kapiserver.clusters.service import LogicalClusters

_log = logging.getLogger(__name__)

Barrier: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until other worker processes are ready."""


class RunningServer(Struct, frozen=True, kw_only=True):
    """A server that accepts requests.

    controllers     what runs its controllers
    url             the HTTPS URL, or the plain one without HTTPS
    reload          reads again the files that may change while the server runs
    insecure_url    the plain HTTP URL, "" if it is off
    page_url        the link to the page at /ui, which signs an administrator in once; "" if the
                    page is off
    ca_file         CA of the serving certificate; None without HTTPS
    kubeconfig      file of an administrator's kubeconfig; None if the server listens on no port, or
                    found the disk full
    credentials     certificate files; None without HTTPS
    clusters        its logical clusters; None if they are off
    """

    cluster: Cluster
    controllers: ControllerManager
    url: str
    reload: Callable[[], None]
    insecure_url: str = ""
    page_url: str = ""
    ca_file: Path | None = None
    kubeconfig: Path | None = None
    credentials: Credentials | None = None
    clusters: LogicalClusters | None = None

    def status(self) -> Mapping[str, object]:
        """Return figures for the log: requests and watches in progress, objects in the caches."""
        server = self.cluster.server
        return {
            "requests": server.metrics.in_flight.executing,
            "watches": server.metrics.requests.open_streams,
            "objects": sum(store.cache.count for store in server.stores.in_use()),
            "draining": server.health.draining,
        }


async def _no_barrier() -> None:
    pass


@asynccontextmanager
async def serve(
    config: Config,
    parts: Parts = DEFAULT_PARTS,
    *,
    host: Host | None = None,
    has_policy: bool = False,
    barrier: Barrier = _no_barrier,
) -> AsyncIterator[RunningServer]:
    """Run a cluster on its ports until the block ends, then drain it as its `shutdown` settings
    say: /readyz fails, no connection is accepted, watches end, requests in flight finish.

    host        the host of several clusters; None: a host of its own
    has_policy  whether the store has RBAC's bootstrap policy, which is not created then
    barrier     awaited before the server reports ready

    Raises the errors of `open_cluster`, ForeignKubeconfig, and OSError for a port in use.
    """
    async with AsyncExitStack() as stack:
        folder = config.certificates.cert_dir or _temporary_folder(stack)
        is_secure = config.serving.secure_port is not None
        if is_secure:
            config = config.replace(cert_dir=folder)
        certificates = ensure_certificates(config, folder) if is_secure else None
        host = host or Host(config)
        cluster = await stack.enter_async_context(open_cluster(config, parts, host))
        _start_tasks(cluster, stack)
        on_error = functools.partial(error_response, cluster.server)
        ca_text = certificates.ca.read_text() if certificates is not None else ""
        clusters = await _open_logical_clusters(cluster, host, ca_text, stack)
        http = host.http_server(clusters.handle if clusters else cluster.handle, on_error)
        stack.push_async_callback(_drain, cluster, http)
        insecure_port = 0
        if config.serving.insecure_port is not None:
            insecure_port = await http.listen_insecure(config.serving.insecure_port)
        control_loops: list[Loop] = []
        await start_access(cluster, stack)
        manager = await start_controllers(
            cluster,
            has_policy=has_policy,
            is_first_worker=host.is_first_worker,
            ca_text=ca_text,
            signing_ca=FileAuthority(certificates.own_ca) if certificates is not None else None,
        )
        control_loops.append(manager)
        stack.push_async_callback(stop_together, control_loops)
        await barrier()
        if host.is_first_worker:
            control_loops.append(start_repair(cluster))
        else:
            cluster.server.health.finish(REPAIR_HOOK)
        insecure_url = f"http://{LOOPBACK}:{insecure_port}" if insecure_port else ""
        context = _tls_context(certificates, http)
        running = await _listen(cluster, manager, http, context, folder, insecure_url)
        if clusters is not None:
            running = replace(running, clusters=clusters)
            controller = await clusters.start(running.url, context.trust if context else None)
            control_loops.append(controller)
            manager.add(controller)
        port = int(running.url.rpartition(":")[2] or 0)
        for loop in _start_loops(cluster, port, is_first_worker=host.is_first_worker):
            control_loops.append(loop)
            manager.add(loop)
        stack.push_async_callback(_delay_shutdown, cluster)
        yield running


async def _open_logical_clusters(
    cluster: Cluster, host: Host, ca_text: str, stack: AsyncExitStack
) -> LogicalClusters | None:
    """Open what passes requests to logical clusters; None if they are off."""
    if not cluster.server.config.logical_clusters.enable_logical_clusters:
        return None
    from kapiserver.clusters.service import open_logical_clusters  # few servers have them

    return await stack.enter_async_context(open_logical_clusters(cluster, host, ca_text=ca_text))


def _tls_context(certificates: Credentials | None, http: HttpServer) -> ReloadingContext | None:
    if certificates is None:
        return None
    return ReloadingContext(certificates, http2=http.http2 is not None)


async def _listen(
    cluster: Cluster,
    controllers: ControllerManager,
    http: HttpServer,
    context: ReloadingContext | None,
    folder: Path,
    insecure_url: str,
) -> RunningServer:
    """Listen with TLS if there is a context, and write the kubeconfig."""
    config = cluster.server.config
    serving, certificate = config.serving, config.certificates.tls_cert_file
    url, certificates = insecure_url, None
    if context is not None:
        certificates = context.credentials
        port = await http.listen_secure(serving.bind_address, serving.secure_port or 0, context)
        url = f"https://{url_host(serving.bind_address)}:{port}"
    kubeconfig = serving.kubeconfig_out or folder / "kubeconfig" if url else None
    if kubeconfig is not None:
        if certificate is not None:
            follow = functools.partial(follow_certificate, kubeconfig, url, certificates)
            cluster.file_watch.add_files([certificate], follow)
        if not write_if_space(kubeconfig, url=url, credentials=certificates):
            kubeconfig = None
    return RunningServer(
        cluster=cluster,
        controllers=controllers,
        url=url,
        reload=functools.partial(_reload_files, cluster, context),
        kubeconfig=kubeconfig,
        insecure_url=insecure_url,
        page_url=_page_url(cluster, url, insecure_url),
        ca_file=certificates.ca if certificates is not None else None,
        credentials=certificates,
    )


def _page_url(cluster: Cluster, url: str, insecure_url: str) -> str:
    """Return the URL of the page. It has the key of a session, unless its users need none (on the
    insecure port) or the next request may reach another process."""
    page = cluster.server.page
    if page is None or not url:
        return ""
    if url == insecure_url or cluster.server.config.serving.workers > 1:
        return f"{url}/ui/"
    return page.sessions.make_link(url)


def _temporary_folder(stack: AsyncExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapiserver-")))


def _start_tasks(cluster: Cluster, stack: AsyncExitStack) -> None:
    server = cluster.server
    config = server.config
    compactor = Compactor(
        cluster.kv, server.clock, config.store.etcd_compaction_interval, root=config.store.key_root
    )
    compactor.start()
    stack.callback(compactor.stop)
    cluster.file_watch.start()
    stack.callback(cluster.file_watch.stop)
    if server.audit is not None:
        server.audit.start()
        stack.push_async_callback(server.audit.stop)


def _start_loops(cluster: Cluster, port: int, *, is_first_worker: bool) -> Sequence[AnyController]:
    """Start what tells clients and other servers where this server is, which its first worker does,
    and what finds out what other servers serve."""
    server, has_identity = cluster.server, _has_identity(cluster, port)
    loops: list[AnyController] = []
    hooks = [*SERVICE_HOOKS]
    if is_first_worker:
        loops.append(_kubernetes_service(cluster, port))
        if has_identity:
            loops.extend(_identity_loops(cluster, port))
    if has_identity:
        hooks.extend(_identity_hooks(cluster))
        if server.peers is not None:
            from kapiserver.controllers.endpoints.peer_discovery import PeerDiscovery

            context = apiserver_context(server, "peer-discovery-cache-sync")
            loops.append(PeerDiscovery(context, server.peers, server_id(port)))
    for loop in loops:
        loop.start()
    server.health.finish(*hooks)
    return loops


def _kubernetes_service(cluster: Cluster, port: int) -> KubernetesService:
    address = reached_at(cluster.server.config.serving.bind_address)
    server_address = ServerAddress(port, address) if address and port else None
    context = apiserver_context(cluster.server, "kubernetes-service")
    return KubernetesService(context, server_address, port)


def _has_identity(cluster: Cluster, port: int) -> bool:
    """Return whether a server says that it runs: one that clients reach, beside others."""
    is_on = "APIServerIdentity" in cluster.server.config.features.feature_gates
    return is_on and cluster.kv.shared and port > 0


def _identity_loops(cluster: Cluster, port: int) -> Sequence[AnyController]:
    """Return what tells other servers that this one runs, where it is, and what it stores."""
    server, own_id = cluster.server, server_id(port)
    loops: list[AnyController] = []
    address: HostPort | None = None
    if "UnknownVersionInteroperabilityProxy" in server.config.features.feature_gates:
        from kapiserver.controllers.endpoints.peer_lease import PeerLease, peer_address

        address = peer_address(server.config, port)
        context = apiserver_context(server, "peer-endpoint-reconciler")
        loops.append(PeerLease(context, own_id, address))
    context = apiserver_context(server, "apiserver-identity")
    loops.append(APIServerIdentity(context, own_id, address))
    if "StorageVersionAPI" in server.config.features.feature_gates:
        from kapiserver.controllers.storage_versions import reports

        if server.scheme.is_served(reports.INTERNAL):
            context = apiserver_context(server, "storage-version-updater")
            loops.append(reports.StorageVersionReports(context, own_id))
        else:
            _log.warning("StorageVersionAPI needs --runtime-config=%s=true", reports.INTERNAL)
    return loops


def _identity_hooks(cluster: Cluster) -> Sequence[str]:
    """Return the steps of the start that a server with an identity has, added to its health."""
    server = cluster.server
    hooks = [IDENTITY_HOOK]
    if "UnknownVersionInteroperabilityProxy" in server.config.features.feature_gates:
        hooks.append(PEER_HOOK)
    if server.peers is not None:
        hooks.extend(PEER_PROXY_HOOKS)
    for hook in hooks:
        server.health.add_hook(hook)
    return hooks


def _reload_files(cluster: Cluster, context: ReloadingContext | None) -> None:
    """Read certificates and watched files again. An unusable one is logged and changes nothing."""
    if context is not None:
        context.reload()
    cluster.file_watch.read_all()


async def _delay_shutdown(cluster: Cluster) -> None:
    """Report unready, and go on serving until load balancers have noticed."""
    delay = cluster.server.config.shutdown.shutdown_delay_duration
    if delay:
        cluster.server.health.drain()
        await asyncio.sleep(delay)


async def _drain(cluster: Cluster, http: HttpServer) -> None:
    server, settings = cluster.server, cluster.server.config.shutdown
    watch_seconds = settings.shutdown_watch_termination_grace_period
    server.health.drain()
    if settings.shutdown_send_retry_after:
        server.health.refuse()
        await http.finish_requests(server.config.limits.request_timeout, watch_seconds)
    await http.drain(settings.shutdown_timeout, watch_seconds)
