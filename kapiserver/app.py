"""Composition of a server: creates every part and connects them; no other module does.

The parts that a program may replace are in `Parts`. The layers below know no flag and no
environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.custom_kinds import Definition
from kapiserver.api.group import GroupVersion
from kapiserver.api.resource_client import Client
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.plugins import AdmissionPlugins
from kapiserver.apiserver.allocation import ServiceAllocation
from kapiserver.apiserver.allocation.repair import AllocationRepair
from kapiserver.apiserver.authentication.chain import Authentication
from kapiserver.apiserver.authentication.service_account_tokens import ServiceAccountTokens
from kapiserver.apiserver.authorization.modes import Authorization
from kapiserver.apiserver.authorizer import Authorizer, ManagedAuthorizer
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Filter, Handler, Server
from kapiserver.apiserver.customresources.custom_resources import CustomResources
from kapiserver.apiserver.file_watch import FileWatch
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.filters.recovery import error_response
from kapiserver.apiserver.flowcontrol.classifier import FlowClassifier
from kapiserver.apiserver.health import (
    LOOP_HOOKS,
    RBAC_HOOK,
    REPAIR_HOOK,
    SERVICE_HOOKS,
    server_health,
)
from kapiserver.apiserver.http_client.upstreams import Upstreams
from kapiserver.apiserver.memory_limit import MemoryLimit, max_memory
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.routes import route
from kapiserver.apiserver.runtime_config import make_scheme
from kapiserver.apiserver.serving.connection_limits import UnauthenticatedConnections
from kapiserver.apiserver.serving.kubeconfig import follow_certificate, write_if_space
from kapiserver.apiserver.serving.process_memory import COLLECTOR, free_in_thread
from kapiserver.apiserver.serving.server import LOOPBACK, HttpServer, url_host
from kapiserver.apiserver.serving.tls import Credentials, ensure_certificates
from kapiserver.apiserver.serving.tls_reload import ReloadingContext
from kapiserver.apiserver.user import APISERVER, User
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.media_types import CBOR, MEDIA_TYPES, MediaType
from kapiserver.controllers.certificates.csr_signing import check_signing_files
from kapiserver.controllers.endpoints.apiserver_endpoints import ServerAddress
from kapiserver.controllers.endpoints.kubernetes_service import KubernetesService, reached_at
from kapiserver.controllers.manager import ControllerManager, apiserver_context
from kapiserver.controllers.registry import ControllerDescriptor
from kapiserver.parts import DEFAULT_PARTS, Parts
from kapiserver.storage.backends import open_store
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.concurrency.clock import Clock, SystemClock
from kapiserver.storage.errors import StorageError
from kapiserver.storage.kv.compaction import Compactor
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.objects.store_registry import Converter, StoreHooks, StoreRegistry
from kapiserver.storage.wrappers.metered_store import MeteredStore, Observe

if TYPE_CHECKING:
    from kapiserver.apiserver.audit.log import AuditLog
    from kapiserver.storage.encryption.config import EncryptionFile

_log = logging.getLogger(__name__)

Barrier: TypeAlias = Callable[[], Awaitable[None]]
"""Waits until other worker processes are ready."""


class App(Struct, frozen=True):
    """The parts of a server, and the handler of its requests."""

    server: Server
    kv: KV
    handle: Handler
    authentication: Authentication
    unauthenticated: UnauthenticatedConnections
    plugins: AdmissionPlugins
    file_watch: FileWatch


class RunningServer(Struct, frozen=True, kw_only=True):
    """A server that accepts requests.

    url             the HTTPS URL, or the plain one without HTTPS
    reload          reads again the files that may change while the server runs
    insecure_url    the plain HTTP URL, "" if it is off
    ca_file         CA of the serving certificate; None without HTTPS
    kubeconfig      file of an administrator's kubeconfig; None if the server listens on no port, or
                    found the disk full
    credentials     certificate files; None without HTTPS
    """

    app: App
    url: str
    reload: Callable[[], None]
    insecure_url: str = ""
    ca_file: Path | None = None
    kubeconfig: Path | None = None
    credentials: Credentials | None = None

    def status(self) -> Mapping[str, object]:
        """Return figures for the log: requests and watches in progress, objects in the caches."""
        server = self.app.server
        return {
            "requests": sum(server.metrics.in_flight.values.values()),
            "watches": server.metrics.requests.open_streams,
            "objects": sum(store.cache.count for store in server.stores.in_use()),
            "draining": server.health.draining,
        }


_ControlLoop: TypeAlias = ControllerManager | AllocationRepair | KubernetesService


async def _no_barrier() -> None:
    pass


@asynccontextmanager
async def serve(
    config: Config,
    parts: Parts = DEFAULT_PARTS,
    *,
    has_policy: bool = False,
    barrier: Barrier = _no_barrier,
) -> AsyncIterator[RunningServer]:
    """Run a server until the block ends, then drain it within `config.shutdown_timeout` seconds:
    /readyz fails, no connection is accepted, watches end, requests in flight finish.

    has_policy          whether the store has RBAC's bootstrap policy, which is not created then
    barrier             awaited before the server reports ready

    Raises the errors of `build_app`, ForeignKubeconfig, and OSError for a port in use.
    """
    async with AsyncExitStack() as stack:
        folder = config.cert_dir or _temporary_folder(stack)
        is_secure = config.secure_port is not None
        if is_secure:
            config = replace(config, cert_dir=folder)
        certificates = ensure_certificates(config, folder) if is_secure else None
        app = await build_app(config, parts)
        stack.push_async_callback(app.kv.close)
        stack.push_async_callback(app.plugins.close)
        _start_tasks(app, stack)
        http = _http_server(app)
        stack.push_async_callback(_drain, app, http)
        insecure_port = 0
        if config.insecure_port is not None:
            insecure_port = await http.listen_insecure(config.insecure_port)
        control_loops: list[_ControlLoop] = []
        manager = await _start_loops(app, stack, parts.controllers, certificates, has_policy)
        control_loops.append(manager)
        stack.push_async_callback(_stop_together, control_loops)
        await barrier()
        control_loops.append(_start_repair(app))
        insecure_url = f"http://{LOOPBACK}:{insecure_port}" if insecure_port else ""
        running = await _listen(app, http, certificates, folder, insecure_url)
        port = int(running.url.rpartition(":")[2] or 0)
        control_loops.append(_start_kubernetes_service(app, port))
        yield running


async def _listen(
    app: App,
    http: HttpServer,
    certificates: Credentials | None,
    folder: Path,
    insecure_url: str,
) -> RunningServer:
    """Listen with TLS if there are certificates, and write the kubeconfig."""
    config = app.server.config
    url, context = insecure_url, None
    if certificates is not None:
        context = ReloadingContext(certificates)
        port = await http.listen_secure(config.bind_address, config.secure_port or 0, context)
        url = f"https://{url_host(config.bind_address)}:{port}"
    kubeconfig = config.kubeconfig_out or folder / "kubeconfig" if url else None
    if kubeconfig is not None:
        if config.tls_cert_file is not None:
            follow = functools.partial(follow_certificate, kubeconfig, url, certificates)
            app.file_watch.add_files([config.tls_cert_file], follow)
        if not write_if_space(kubeconfig, url=url, credentials=certificates):
            kubeconfig = None
    return RunningServer(
        app=app,
        url=url,
        reload=functools.partial(_reload_files, app, context),
        kubeconfig=kubeconfig,
        insecure_url=insecure_url,
        ca_file=certificates.ca if certificates is not None else None,
        credentials=certificates,
    )


def _temporary_folder(stack: AsyncExitStack) -> Path:
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kapiserver-")))


def _http_server(app: App) -> HttpServer:
    on_error = functools.partial(error_response, app.server)
    config = app.server.config
    reuse_port = config.workers > 1
    return HttpServer(
        app.handle, on_error, app.unauthenticated, reuse_port=reuse_port, front=config.http
    )


def _start_tasks(app: App, stack: AsyncExitStack) -> None:
    server = app.server
    config = server.config
    compactor = Compactor(
        app.kv, server.clock, config.etcd_compaction_interval, root=config.key_root
    )
    compactor.start()
    stack.callback(compactor.stop)
    app.file_watch.start()
    stack.callback(app.file_watch.stop)
    if server.audit is not None:
        server.audit.start()
        stack.push_async_callback(server.audit.stop)


async def _start_loops(
    app: App,
    stack: AsyncExitStack,
    registry: Sequence[ControllerDescriptor],
    certificates: Credentials | None,
    has_policy: bool,
) -> ControllerManager:
    """Start the parts that read the store to decide on requests, and the controllers. Return the
    manager of the controllers, which the caller stops."""
    app.authentication.start()
    stack.push_async_callback(app.authentication.stop)
    authorizer = app.server.authorizer
    if isinstance(authorizer, ManagedAuthorizer):
        await authorizer.start()
        stack.push_async_callback(authorizer.stop)
    await app.server.custom_resources.start()
    stack.callback(app.server.custom_resources.stop)
    classifier = app.server.flow_classifier
    if classifier is not None:
        classifier.start()
        stack.callback(classifier.stop)
    with contextlib.suppress(StorageError):  # a paged list tries again
        await app.server.stores.load_token_codec()  # saves the key before the disk may be full
    manager = ControllerManager(
        app.server,
        ca_text=certificates.ca.read_text() if certificates is not None else "",
        signing_ca=certificates.own_ca if certificates is not None else None,
        registry=registry,
        has_policy=has_policy,
    )
    await manager.start()
    app.server.health.finish(*LOOP_HOOKS, RBAC_HOOK)
    return manager


def _start_repair(app: App) -> AllocationRepair:
    repair = AllocationRepair(app.server)
    repair.start()
    app.server.health.finish(REPAIR_HOOK)
    return repair


def _start_kubernetes_service(app: App, port: int) -> KubernetesService:
    address = reached_at(app.server.config.bind_address)
    server_address = ServerAddress(port, address) if address and port else None
    service = KubernetesService(apiserver_context(app.server), server_address, port)
    service.start()
    app.server.health.finish(*SERVICE_HOOKS)
    return service


async def _stop_together(loops: Sequence[_ControlLoop]) -> None:
    """Stop all loops at the same time, so that none goes on working while another one ends."""
    await asyncio.gather(*(loop.stop() for loop in loops))


def _reload_files(app: App, context: ReloadingContext | None) -> None:
    """Read certificates and watched files again. An unusable one is logged and changes nothing."""
    if context is not None:
        context.reload()
    app.file_watch.read_all()


def _file_watch(
    authentication: Authentication, authorizer: Authorizer, encryption: EncryptionFile | None
) -> FileWatch:
    """Return what reads the files again that change while the server runs."""
    watch = FileWatch(SystemClock())  # files change in real time, whatever the server's clock
    watch.add_files(authentication.files, authentication.reload)
    if isinstance(authorizer, Authorization):
        watch.add_files(authorizer.files, authorizer.reload)
    if encryption is not None:
        watch.add_files(encryption.files, encryption.reload)
    return watch


async def _drain(app: App, http: HttpServer) -> None:
    app.server.health.drain()
    await http.drain(app.server.config.shutdown_timeout)
    await app.server.upstreams.close()
    app.server.stores.stop()


async def build_app(config: Config, parts: Parts = DEFAULT_PARTS) -> App:
    """Create every part of a server and open its store, but no socket.

    Raises BadTokenFile, ValueError and OSError for an unusable setting or file, StorageError.
    """
    clock = parts.clock or SystemClock()
    offloader = parts.offloader or Offloader()
    check_signing_files(config)
    scheme = make_scheme(config, [added.group for added in parts.call_groups])
    codecs = CodecFactory(scheme, _media_types(config))
    account_tokens = _service_account_tokens(config, clock)
    metrics = Metrics()
    encryption = _encryption(config, clock, metrics)
    kv = await _metered_store(config, clock, metrics.storage_observer(scheme.resource_at), parts.kv)
    stores = StoreRegistry(
        kv,
        scheme,
        codecs,
        clock,
        offloader,
        identifiers=parts.identifiers,
        root=config.key_root,
        event_ttl=config.event_ttl,
        encryption=encryption.encryption if encryption is not None else None,
        hooks=functools.partial(_store_hooks, config, codecs, offloader),
    )
    authorizer = parts.authorizer or Authorization(
        config, stores, clock, metrics.authorization_reloads
    )
    custom_resources = CustomResources(scheme, stores, metrics.retain_versions)
    rbac = authorizer.rbac if isinstance(authorizer, Authorization) else None
    authentication = Authentication(
        config,
        stores,
        clock,
        account_tokens,
        metrics.authentication,
        lambda: _apiserver_client(server),
    )
    file_watch = _file_watch(authentication, authorizer, encryption)
    plugins = AdmissionPlugins(parts.admission_plugins, config, clock, metrics, file_watch)
    unauthenticated = UnauthenticatedConnections()
    free_memory = (stores.free_memory, unauthenticated.close_half, free_in_thread)
    server = Server(
        config=config,
        scheme=scheme,
        codecs=codecs,
        stores=stores,
        clock=clock,
        custom_resources=custom_resources,
        offloader=offloader,
        upstreams=Upstreams(config, offloader),
        new_client=_new_client,
        health=server_health(config, kv, custom_resources, rbac=rbac is not None),
        metrics=metrics,
        audit=_audit(config, codecs, clock, metrics),
        authenticator=authentication.authenticator,
        service_account_tokens=account_tokens,
        authorizer=authorizer,
        rbac=rbac,
        flow_classifier=FlowClassifier(stores),
        memory_limit=MemoryLimit(max_memory(config), clock, free_memory, COLLECTOR.memory),
        calls={added.group.name: added.handle for added in parts.call_groups},
        faults=parts.faults,
        plugin_chain=plugins.chain,
    )
    handle = compose(server, parts.filters)
    return App(server, kv, handle, authentication, unauthenticated, plugins, file_watch)


async def _metered_store(config: Config, clock: Clock, observe: Observe, kv: KV | None) -> KV:
    fsync = not config.unsafe_no_fsync
    kv = kv or await open_store(config.storage, clock=clock, etcd=config.etcd, fsync=fsync)
    return MeteredStore(kv, observe, root=config.key_root)


def _audit(config: Config, codecs: CodecFactory, clock: Clock, metrics: Metrics) -> AuditLog | None:
    settings = (config.audit_policy_file, config.audit_webhook_config_file)
    if not config.audit_log_path and settings == (None, None):
        return None
    from kapiserver.apiserver.audit.log import make_audit_log  # loads a YAML parser

    return make_audit_log(config, codecs, clock, metrics)


def _new_client(server: Server, user: User, user_agent: str, authorize: bool) -> Client:
    from kapiserver.apiserver.internal_client import InternalClient  # not needed at start

    return InternalClient(server, user, user_agent=user_agent, authorize=authorize)


def _apiserver_client(server: Server) -> Client:
    return server.client(APISERVER, user_agent="kube-apiserver", authorize=False)


def compose(server: Server, filters: Sequence[Filter] = FILTERS) -> Handler:
    """Wrap the filters around the routes, the first in the list outermost."""
    handle = route(server)
    for wrap in reversed(filters):
        handle = wrap(server, handle)
    return handle


def _media_types(config: Config) -> Sequence[MediaType]:
    if "CBORServingAndStorage" in config.feature_gates:
        return MEDIA_TYPES
    return [media for media in MEDIA_TYPES if media is not CBOR]


def _service_account_tokens(config: Config, clock: Clock) -> ServiceAccountTokens:
    """Read configured key files now, so that an unusable file is reported at start."""
    tokens = ServiceAccountTokens(config, clock)
    if config.service_account_signing_key_file or config.service_account_key_file:
        _ = tokens.keys
    return tokens


def _store_hooks(
    config: Config, codecs: CodecFactory, offloader: Offloader, stores: StoreRegistry
) -> StoreHooks:
    allocation = ServiceAllocation(config, codecs, stores, offloader)
    return StoreHooks(converter=_converter(stores), reserve={("", "services"): allocation.reserve})


def _converter(stores: StoreRegistry) -> Converter:
    async def convert(
        definition: Definition, objects: Sequence[Tree], version: GroupVersion
    ) -> Sequence[Tree]:
        # Imported on first use: it loads an HTTP client.
        from kapiserver.apiserver.customresources.conversion_webhooks import ConversionWebhooks

        return await ConversionWebhooks(stores).convert(definition, objects, version)

    return convert


def _encryption(config: Config, clock: Clock, metrics: Metrics) -> EncryptionFile | None:
    if config.encryption_provider_config is None:
        return None
    from kapiserver.storage.encryption.config import EncryptionFile  # loads a YAML parser

    return EncryptionFile(
        config.encryption_provider_config,
        clock,
        is_reloaded=config.encryption_provider_config_automatic_reload,
        reloads=metrics.encryption_reloads,
    )
