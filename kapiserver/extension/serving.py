"""Serves declared resources: makes the parts of a server that an extension API server needs.

It has no users, roles, controllers or CustomResourceDefinitions of its own, so that its store has
the objects of its resources and nothing else. Filters, handlers, discovery, OpenAPI, stores,
audit, metrics and health are those of `kapiserver serve`.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from kapiserver.api.custom_kinds import CustomKinds
from kapiserver.api.groups import GROUPS
from kapiserver.api.scheme import Scheme
from kapiserver.apiserver.admission.plugins import AdmissionPlugins
from kapiserver.apiserver.aggregation.api_services import APIServices
from kapiserver.apiserver.aggregation.lazy_back_ends import LazyBackEnds
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.customresources.custom_resources import CustomResources
from kapiserver.apiserver.file_watch import FileWatch
from kapiserver.apiserver.filters import FILTERS
from kapiserver.apiserver.filters.recovery import error_response
from kapiserver.apiserver.health import ENCRYPTION_HOOK, Health, check_log, kms_checks
from kapiserver.apiserver.http_client.upstreams import Upstreams
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.serving.kubeconfig import write_if_space
from kapiserver.apiserver.serving.server import LOOPBACK, HttpServer, url_host
from kapiserver.apiserver.serving.tls.credentials import Credentials, ensure_certificates
from kapiserver.apiserver.serving.tls.reload import ReloadingContext
from kapiserver.apiserver.user import APISERVER
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.extension.access import Access
from kapiserver.extension.delegation import STANDS_ALONE, Delegation
from kapiserver.extension.handlers import call_handlers, subresource_handlers
from kapiserver.extension.kinds import declared_kinds
from kapiserver.extension.resources import Resource
from kapiserver.extension.stores import Stores, open_stores
from kapiserver.extension.virtual_store import Place, virtual_stores
from kapiserver.host import Host
from kapiserver.server_parts import (
    compose,
    make_audit,
    make_encryption,
    make_tracer,
    media_types,
    new_client,
    started,
)
from kapiserver.storage.concurrency.clock import Clock, SystemClock
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.objects.store_registry import StoreHooks, StoreOptions, StoreRegistry
from kapiserver.storage.wrappers.metered_store import MeteredStore

if TYPE_CHECKING:
    from kapiserver.extension.admission.plugins import DelegatedAdmission
    from kapiserver.extension.controllers.controller import Controller
    from kapiserver.extension.controllers.manager import RunningControllers
    from kapiserver.storage.encryption.file import EncryptionFile

_SHARED_GROUPS = tuple(group for group in GROUPS if group.name == "autoscaling")
"""The groups whose kinds are bodies of subresources: Scale. They are not served."""
START_HOOK = "generic-apiserver-start-informers"


class RunningServer(Struct, frozen=True, kw_only=True):
    """An extension API server that accepts requests.

    server      its parts
    url         the HTTPS URL, or the plain one without HTTPS
    reload      reads again the files that may change while the server runs
    ca_file     CA of the serving certificate; None without HTTPS
    kubeconfig  file of an administrator's kubeconfig; None if there is no port, or no space
    controllers those that run in the process; None if there are none
    """

    server: Server
    url: str
    reload: Callable[[], None]
    ca_file: Path | None
    kubeconfig: Path | None
    controllers: RunningControllers | None = None


@asynccontextmanager
async def serve(
    resources: Sequence[Resource[Any]],
    config: Config | None = None,
    *,
    delegation: Delegation = STANDS_ALONE,
    clock: Clock | None = None,
    controllers: Sequence[type[Controller[Any]]] = (),
) -> AsyncIterator[RunningServer]:
    """Serve resources on the ports of the settings until the block ends, then drain. Raises
    ValueError and OSError for an unusable setting or file, StorageError."""
    async with AsyncExitStack() as stack:
        config, certificates = _with_certificates(config or Config(), stack)
        host, clock = Host(config), clock or SystemClock()
        kinds, metrics = declared_kinds(resources), Metrics()
        scheme = Scheme(_SHARED_GROUPS, is_enabled=lambda *_: False)
        scheme.custom = kinds
        encryption = make_encryption(config.store, clock, metrics, scheme)
        await stack.enter_async_context(started(encryption))
        basis = _Basis(
            config=config,
            clock=clock,
            host=host,
            scheme=scheme,
            metrics=metrics,
            encryption=encryption,
            stores=await stack.enter_async_context(open_stores(resources, host, config, clock)),
            files=FileWatch(SystemClock()),
            access=_make_access(config, clock, delegation),
            admission=await _open_admission(delegation, config, clock, host, kinds, stack),
        )
        server = _make(basis)
        stack.callback(server.stores.stop)
        stack.enter_context(host.memory_limit.subscribe(server.stores.free_memory))
        http = host.http_server(compose(server, FILTERS), functools.partial(error_response, server))
        stack.push_async_callback(_drain, server, http)
        await _start(server, basis, stack)
        if certificates is not None and basis.access.ca_file is not None:
            trusted = (*certificates.trusted, basis.access.ca_file)
            certificates = structs.replace(certificates, trusted=trusted)
        listening = await _listen(server, http, basis.files, certificates)
        yield await _with_controllers(listening, controllers, stack)


async def _with_controllers(
    running: RunningServer, classes: Sequence[type[Controller[Any]]], stack: AsyncExitStack
) -> RunningServer:
    """Start the controllers of the process, which have all rights."""
    if not classes:
        return running
    from kapiserver.extension.controllers.manager import Manager

    server = running.server
    client = server.client(APISERVER, user_agent="controllers", authorize=False)
    controllers = Manager(classes).run(
        client, clock=server.clock, metrics=server.metrics.workqueues
    )
    return structs.replace(running, controllers=await stack.enter_async_context(controllers))


def _with_certificates(config: Config, stack: AsyncExitStack) -> tuple[Config, Credentials | None]:
    """Return the settings with the folder of certificates, and the certificates of HTTPS."""
    if config.serving.secure_port is None:
        return config, None
    folder = config.certificates.cert_dir
    if folder is None:
        name = stack.enter_context(tempfile.TemporaryDirectory(prefix="kapiserver-"))
        folder = Path(name)
    config = config.replace(cert_dir=folder)
    return config, ensure_certificates(config, folder)


class _Basis(Struct, frozen=True, kw_only=True):
    """The parts that a server is made of."""

    config: Config
    clock: Clock
    host: Host
    scheme: Scheme
    metrics: Metrics
    encryption: EncryptionFile | None
    stores: Stores
    files: FileWatch
    access: Access
    admission: DelegatedAdmission | None


def _make(basis: _Basis) -> Server:
    """Return the parts of the server, connected. Raises ValueError and OSError for an unusable
    setting or file."""
    config, clock, offloader = basis.config, basis.clock, basis.host.offloader
    scheme, metrics = basis.scheme, basis.metrics
    codecs = CodecFactory(scheme, media_types(config.features.feature_gates))
    stores = _stores(basis, codecs)
    hosted = basis.admission.plugins if basis.admission is not None else ()
    plugins = AdmissionPlugins(hosted, config, clock, metrics, basis.files, offloader)
    return Server(
        config=config,
        scheme=scheme,
        codecs=codecs,
        stores=stores,
        clock=clock,
        offloader=offloader,
        custom_resources=CustomResources(scheme, stores),
        upstreams=Upstreams(config.kubelets, offloader),
        api_services=APIServices(scheme, stores),
        back_ends=LazyBackEnds(config.aggregation, stores, offloader, basis.files).get,
        new_client=new_client,
        health=_health(basis),
        metrics=metrics,
        audit=make_audit(config.audit, codecs, clock, metrics),
        tracer=make_tracer(config.debugging),
        authenticator=basis.access.authenticator,
        authorizer=basis.access.authorizer,
        calls=call_handlers(scheme.custom),
        subresources=subresource_handlers(scheme.custom),
        memory_limit=basis.host.memory_limit,
        failed_handshakes=basis.host.failed_handshakes,
        plugin_chain=plugins.chain,
    )


def _make_access(config: Config, clock: Clock, delegation: Delegation) -> Access:
    """Return the authenticators and authorizers, with those of the host if there is one. Raises
    ValueError, OSError."""
    if not delegation.has_host:
        return Access(config, clock, delegation)
    # Loads an HTTP client.
    from kapiserver.extension.delegated_access import DelegatedAccess

    return DelegatedAccess(config, clock, delegation)


async def _open_admission(
    delegation: Delegation,
    config: Config,
    clock: Clock,
    host: Host,
    kinds: CustomKinds,
    stack: AsyncExitStack,
) -> DelegatedAdmission | None:
    """Return the admission plugins of the host cluster; None without one. Raises ValueError for an
    unusable setting or file, StorageError."""
    cluster = None
    if delegation.has_host:
        from kapiserver.extension.host_cluster import find_host  # loads an HTTP client

        cluster = find_host(delegation.kubeconfig)
    if cluster is None:
        settings = config.admission
        if settings.enable_admission_plugins or settings.disable_admission_plugins:
            raise ValueError("admission plugins need a host cluster: --kubeconfig")
        return None
    from kapiserver.extension.admission.plugins import Basis, open_admission

    basis = Basis(host=cluster, config=config, clock=clock, offloader=host.offloader, kinds=kinds)
    return await stack.enter_async_context(open_admission(basis))


def _stores(basis: _Basis, codecs: CodecFactory) -> StoreRegistry:
    root, scheme = basis.config.store.key_root, basis.scheme
    observe = basis.metrics.storage_observer(scheme.resource_at)
    own: dict[tuple[str, str], KV] = {
        name: MeteredStore(kv, observe, root=root) for name, kv in basis.stores.own.items()
    }
    copies = basis.stores.copies
    if copies is not None:
        place = Place(kv=copies, codecs=codecs, clock=basis.clock, root=root)
        own |= virtual_stores(scheme.custom, place)
    options = StoreOptions(
        root=root,
        encryption=basis.encryption.encryption if basis.encryption is not None else None,
        hooks=lambda _: StoreHooks(kv=own),
    )
    kv = MeteredStore(basis.stores.kv, observe, root=root)
    return StoreRegistry(kv, scheme, codecs, basis.clock, basis.host.offloader, options)


def _health(basis: _Basis) -> Health:
    stores, admission = basis.stores, basis.admission

    async def check_stores() -> None:
        for kv in stores:
            await kv.current_revision()

    async def check_writes() -> None:
        for kv in stores:
            await kv.writable()

    kms = kms_checks(basis.encryption)
    synced = {"informer-sync": admission.check_synced} if admission is not None else {}
    is_reloaded = basis.config.store.encryption_provider_config_automatic_reload
    return Health(
        alive={"log": check_log, "etcd": check_stores},
        working=kms,
        ready={"etcd-readiness": check_writes, **kms, **synced},
        hooks=(*([ENCRYPTION_HOOK] if is_reloaded else []), START_HOOK),
    )


async def _start(server: Server, basis: _Basis, stack: AsyncExitStack) -> None:
    """Start what runs beside the requests."""
    files, access, encryption = basis.files, basis.access, basis.encryption
    if encryption is not None:
        files.add_files(encryption.files, encryption.reload)
    files.start()
    stack.callback(files.stop)
    if server.tracer is not None:
        stack.push_async_callback(server.tracer.close)
    if server.audit is not None:
        server.audit.start()
        stack.push_async_callback(server.audit.stop)
    await access.start()
    stack.push_async_callback(access.stop)
    await server.stores.load_token_codec()
    server.health.finish(ENCRYPTION_HOOK, START_HOOK)


async def _listen(
    server: Server, http: HttpServer, files: FileWatch, certificates: Credentials | None
) -> RunningServer:
    """Open the ports and write the kubeconfig."""
    serving = server.config.serving
    url, kubeconfig, context = "", None, None
    if serving.insecure_port is not None:
        url = f"http://{LOOPBACK}:{await http.listen_insecure(serving.insecure_port)}"
    if certificates is not None:
        context = ReloadingContext(certificates, http2=http.http2 is not None)
        port = await http.listen_secure(serving.bind_address, serving.secure_port or 0, context)
        url = f"https://{url_host(serving.bind_address)}:{port}"
        folder = server.config.certificates.cert_dir
        assert folder is not None  # _with_certificates sets it
        kubeconfig = serving.kubeconfig_out or folder / "kubeconfig"
        if not write_if_space(kubeconfig, url=url, credentials=certificates):
            kubeconfig = None
    return RunningServer(
        server=server,
        url=url,
        reload=functools.partial(_reload, files, context),
        ca_file=certificates.ca if certificates is not None else None,
        kubeconfig=kubeconfig,
    )


def _reload(files: FileWatch, context: ReloadingContext | None) -> None:
    """Read certificates and watched files again. An unusable one is logged and changes nothing."""
    if context is not None:
        context.reload()
    files.read_all()


async def _drain(server: Server, http: HttpServer) -> None:
    server.health.drain()
    await http.drain(server.config.shutdown.shutdown_timeout)
