"""Cluster: what an API has. Creates every part of one and connects them.

A cluster has a scheme, objects, users, admission plugins and controllers of its own, and a handler
of requests. It knows no socket: `serve` of `app.py` runs a cluster on ports. What it shares with
other clusters of the process it has from its `Host`.
"""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.custom_kinds import Definition
from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.plugins import AdmissionPlugins
from kapiserver.apiserver.aggregation.api_services import APIServices
from kapiserver.apiserver.aggregation.lazy_back_ends import LazyBackEnds
from kapiserver.apiserver.allocation import ServiceAllocation
from kapiserver.apiserver.authentication.chain import Access, Authentication
from kapiserver.apiserver.authentication.service_accounts.tokens import ServiceAccountTokens
from kapiserver.apiserver.authorization.modes import Authorization
from kapiserver.apiserver.authorizer import Authorizer
from kapiserver.apiserver.config import Config, SimulationSettings
from kapiserver.apiserver.context import Handler, Server
from kapiserver.apiserver.customresources.custom_resources import CustomResources
from kapiserver.apiserver.file_watch import FileWatch
from kapiserver.apiserver.flowcontrol.flow_control import make_flow_control
from kapiserver.apiserver.health import server_health
from kapiserver.apiserver.http_client.upstreams import Upstreams
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.runtime_config import make_scheme
from kapiserver.apiserver.webhooks.metrics import ConversionMetrics
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.controllers.certificates.csr_signing import check_signing_files
from kapiserver.controllers.descriptor import ControllerDescriptor
from kapiserver.host import Host
from kapiserver.parts import DEFAULT_PARTS, Parts
from kapiserver.server_parts import (
    compose,
    make_audit,
    make_encryption,
    make_tracer,
    media_types,
    new_client,
    started,
)
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.concurrency.clock import Clock, SystemClock
from kapiserver.storage.encryption.transformers import EncryptionRules
from kapiserver.storage.kv.contract import KV
from kapiserver.storage.objects.store_registry import (
    Converter,
    StoreHooks,
    StoreOptions,
    StoreRegistry,
)
from kapiserver.storage.wrappers.metered_store import MeteredStore

if TYPE_CHECKING:
    from kapiserver.apiserver.peers.peer_proxy import PeerProxy
    from kapiserver.apiserver.streaming.local_kubelet import LocalKubelet
    from kapiserver.apiserver.ui.page import Page
    from kapiserver.storage.encryption.file import EncryptionFile


class Cluster(Struct, frozen=True, kw_only=True):
    """One API, its objects and its users.

    server          the parts that handlers, filters and controllers use
    kv              the store of its objects
    encryption      the rules of encryption at rest; None without encryption
    handle          responds to a request
    authentication  the authenticators
    back_ends       the connections to extension API servers
    plugins         the admission plugins
    controllers     all controllers, of which the configuration enables some
    file_watch      reads the files again that change while the cluster runs
    """

    server: Server
    kv: KV
    encryption: EncryptionRules | None
    handle: Handler
    authentication: Authentication
    back_ends: LazyBackEnds
    plugins: AdmissionPlugins
    controllers: Sequence[ControllerDescriptor]
    file_watch: FileWatch


@asynccontextmanager
async def open_cluster(
    config: Config, parts: Parts = DEFAULT_PARTS, host: Host | None = None
) -> AsyncIterator[Cluster]:
    """Open a cluster until the block ends. It handles requests, but nothing runs in it yet.

    host    what it shares with other clusters; None: a host of its own

    Raises BadTokenFile, ValueError and OSError for an unusable setting or file, StorageError.
    """
    host = host or Host(config)
    if config.simulation.simulate:
        config, parts = _simulating(config, parts)
    check_signing_files(config.controller_manager)
    basis = _basis(config, parts, host)
    async with started(basis.encryption), _open_store(config, parts, host, basis.clock) as store:
        observe = basis.metrics.storage_observer(basis.scheme.resource_at)
        kv = MeteredStore(store, observe, root=config.store.key_root)
        cluster = _connect(config, parts, host, basis, kv)
        try:
            with host.memory_limit.subscribe(cluster.server.stores.free_memory):
                yield cluster
        finally:
            cluster.server.upstreams.close()
            cluster.back_ends.close()
            if cluster.server.peers is not None:
                cluster.server.peers.connections.close()
            cluster.server.stores.stop()
            await cluster.plugins.close()
            if cluster.server.tracer is not None:
                await cluster.server.tracer.close()


def _simulating(config: Config, parts: Parts) -> tuple[Config, Parts]:
    """Return a configuration and parts with what `--simulate` adds."""
    from kapiserver.simulation.controllers import CONTROLLERS, SIMULATORS  # not needed otherwise
    from kapiserver.simulation.metrics.groups import METRICS_GROUPS, LazyPages

    controllers = (*config.controller_manager.controllers, *CONTROLLERS)
    return (
        config.replace(controllers=controllers),
        replace(
            parts,
            controllers=(*parts.controllers, *SIMULATORS),
            computed_groups=(*parts.computed_groups, *METRICS_GROUPS),
            metric_pages=LazyPages(),
            page_features=(*parts.page_features, "simulation"),
        ),
    )


@asynccontextmanager
async def _open_store(config: Config, parts: Parts, host: Host, clock: Clock) -> AsyncIterator[KV]:
    if parts.kv is None:
        async with host.open_store(config, clock) as kv:
            yield kv
        return
    try:
        yield parts.kv
    finally:
        await parts.kv.close()


class _Basis(Struct, frozen=True, kw_only=True):
    """The parts of a cluster that need no store."""

    clock: Clock
    offloader: Offloader
    scheme: Scheme
    codecs: CodecFactory
    metrics: Metrics
    account_tokens: ServiceAccountTokens
    encryption: EncryptionFile | None
    encryption_rules: EncryptionRules | None


def _basis(config: Config, parts: Parts, host: Host) -> _Basis:
    clock, metrics = parts.clock or SystemClock(), Metrics()
    added_groups = [
        *(added.group for added in parts.call_groups),
        *(added.group for added in parts.computed_groups),
    ]
    scheme = parts.scheme or make_scheme(config.features, added_groups)
    encryption = make_encryption(config.store, clock, metrics, scheme)
    return _Basis(
        clock=clock,
        offloader=parts.offloader or host.offloader,
        scheme=scheme,
        codecs=CodecFactory(scheme, media_types(config.features.feature_gates)),
        metrics=metrics,
        account_tokens=_service_account_tokens(config, parts.access, clock),
        encryption=encryption,
        encryption_rules=parts.encryption or (encryption.encryption if encryption else None),
    )


def _connect(config: Config, parts: Parts, host: Host, basis: _Basis, kv: KV) -> Cluster:
    """Create the parts that need the store."""
    clock, metrics, encryption = basis.clock, basis.metrics, basis.encryption
    stores = _stores(config, parts, basis, kv)
    authorizer = parts.authorizer or Authorization(
        config.authorization, stores, clock, metrics.authorization
    )
    rbac = authorizer.rbac if isinstance(authorizer, Authorization) else None
    custom_resources = CustomResources(basis.scheme, stores, metrics.retain_versions)
    authentication = Authentication(
        config, stores, clock, basis.account_tokens, metrics.authentication, parts.access
    )
    file_watch = _file_watch(authentication, authorizer, encryption)
    back_ends = LazyBackEnds(config.aggregation, stores, basis.offloader, file_watch)
    plugins = AdmissionPlugins(
        parts.admission_plugins, config, clock, metrics, file_watch, basis.offloader
    )
    server = Server(
        config=config,
        cluster_name=parts.cluster_name,
        scheme=basis.scheme,
        codecs=basis.codecs,
        stores=stores,
        clock=clock,
        custom_resources=custom_resources,
        offloader=basis.offloader,
        upstreams=Upstreams(config.kubelets, basis.offloader),
        api_services=APIServices(basis.scheme, stores),
        back_ends=back_ends.get,
        peers=_peers(config, kv, basis, file_watch),
        local_kubelet=_local_kubelet(config.simulation, clock),
        new_client=new_client,
        health=server_health(config, kv, custom_resources, encryption, rbac=rbac is not None),
        metrics=metrics,
        audit=parts.audit or make_audit(config.audit, basis.codecs, clock, metrics),
        tracer=make_tracer(config.debugging),
        authenticator=authentication.authenticator,
        service_account_tokens=basis.account_tokens,
        authorizer=authorizer,
        rbac=rbac,
        flow_control=make_flow_control(config.limits, config.features, stores, metrics),
        memory_limit=host.memory_limit,
        failed_handshakes=host.failed_handshakes,
        calls={
            (resource.group, resource.name): added.handle
            for added in parts.call_groups
            for resource in basis.scheme.resources(added.group.name)
        },
        computed={added.group.name: added.read for added in parts.computed_groups},
        metric_pages=parts.metric_pages,
        page=_page(config, parts),
        paths=parts.paths,
        faults=parts.faults,
        plugin_chain=plugins.chain,
    )
    return Cluster(
        server=server,
        kv=kv,
        encryption=basis.encryption_rules,
        handle=compose(server, parts.filters),
        authentication=authentication,
        back_ends=back_ends,
        plugins=plugins,
        controllers=parts.controllers,
        file_watch=file_watch,
    )


def _stores(config: Config, parts: Parts, basis: _Basis, kv: KV) -> StoreRegistry:
    options = StoreOptions(
        identifiers=parts.identifiers,
        root=config.store.key_root,
        event_ttl=config.store.event_ttl,
        workers=config.serving.workers,
        encryption=basis.encryption_rules,
        shared_trees=parts.shared_trees,
        hooks=functools.partial(_store_hooks, config, basis),
    )
    return StoreRegistry(kv, basis.scheme, basis.codecs, basis.clock, basis.offloader, options)


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


def _peers(config: Config, kv: KV, basis: _Basis, file_watch: FileWatch) -> PeerProxy | None:
    if config.peers.peer_ca_file is None:
        return None
    if not kv.shared:
        raise ValueError("--peer-ca-file needs a store that servers share")
    from kapiserver.apiserver.peers.peer_leases import PeerLeases  # most servers have no peers
    from kapiserver.apiserver.peers.peer_proxy import make_peer_proxy

    leases = PeerLeases(kv, basis.codecs, config.store.key_root)
    return make_peer_proxy(config, leases, basis.metrics.peers, file_watch)


def _local_kubelet(settings: SimulationSettings, clock: Clock) -> LocalKubelet | None:
    if not settings.simulate:
        return None
    from kapiserver.simulation.streams.kubelet import SimulatedKubelet  # only if it is simulated

    return SimulatedKubelet(clock, has_host_access=settings.simulate_host_access)


def _page(config: Config, parts: Parts) -> Page | None:
    if not config.serving.enable_ui:
        return None
    from kapiserver.apiserver.ui.page import Page  # reads the files of the page

    return Page(tuple(parts.page_features))


def _service_account_tokens(
    config: Config, access: Access | None, clock: Clock
) -> ServiceAccountTokens:
    """Read configured key files now, so that an unusable file is reported at start."""
    if access is not None:
        return ServiceAccountTokens(config, clock, access.signing_key)
    tokens = ServiceAccountTokens(config, clock)
    settings = config.service_accounts
    if settings.service_account_signing_key_file or settings.service_account_key_file:
        _ = tokens.keys
    return tokens


def _store_hooks(config: Config, basis: _Basis, stores: StoreRegistry) -> StoreHooks:
    allocation = ServiceAllocation(config, basis.codecs, stores, basis.offloader)
    converter = _converter(stores, basis.metrics.conversions)
    return StoreHooks(converter=converter, reserve={("", "services"): allocation.reserve})


def _converter(stores: StoreRegistry, metrics: ConversionMetrics) -> Converter:
    async def convert(
        definition: Definition, objects: Sequence[Tree], version: GroupVersion
    ) -> Sequence[Tree]:
        # Imported on first use: it loads an HTTP client.
        from kapiserver.apiserver.customresources.conversion_webhooks import ConversionWebhooks

        return await ConversionWebhooks(stores, metrics).convert(definition, objects, version)

    return convert
