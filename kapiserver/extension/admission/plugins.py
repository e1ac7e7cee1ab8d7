"""The admission plugins of a server with a host, whose namespaces, webhooks and policies they obey.

They are those of Go's extension API servers, and the plugins of `kapiserver serve`: each gets the
server with the stores of the copies in place of its own. A write waits until the copies that its
plugins need have been complete once, and is refused if that takes too long. Mirrors
pkg/server/options/admission.go and pkg/admission/handler.go of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from msgspec import Struct, structs

from kapiserver.api.custom_kinds import CustomKinds
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.plugin import Hooks, Plugin, PluginContext
from kapiserver.apiserver.admission.plugins import PLUGINS, enabled_plugins
from kapiserver.apiserver.aggregation.service_resolver import Mapped, read_mapping
from kapiserver.apiserver.attributes import Attributes
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.context import Hook, IsIdle, Server
from kapiserver.apiserver.health import Unhealthy
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.extension.admission.copies import CopyStore, StoredCopies
from kapiserver.extension.admission.reader import ReaderOfHost
from kapiserver.extension.admission.reflector import Reflector
from kapiserver.extension.host_cluster import HostCluster
from kapiserver.extension.stores import open_copies
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.objects.store_registry import StoreOptions, StoreRegistry

READY_SECONDS = 10.0
"""How long a write waits for copies that are not complete yet."""
LIFECYCLE = "NamespaceLifecycle"

_ADMISSION = GroupVersion("admissionregistration.k8s.io", "v1")
_NAMESPACES = (CORE, "namespaces")
COPIED: Mapping[str, tuple[tuple[GroupVersion, str], ...]] = {
    LIFECYCLE: (_NAMESPACES,),
    "MutatingAdmissionPolicy": (
        _NAMESPACES,
        (_ADMISSION, "mutatingadmissionpolicies"),
        (_ADMISSION, "mutatingadmissionpolicybindings"),
    ),
    "MutatingAdmissionWebhook": (_NAMESPACES, (_ADMISSION, "mutatingwebhookconfigurations")),
    "ValidatingAdmissionPolicy": (
        _NAMESPACES,
        (_ADMISSION, "validatingadmissionpolicies"),
        (_ADMISSION, "validatingadmissionpolicybindings"),
    ),
    "ValidatingAdmissionWebhook": (_NAMESPACES, (_ADMISSION, "validatingwebhookconfigurations")),
}
"""The resources of the host that a plugin reads, by the names of the plugins."""


class Basis(Struct, frozen=True, kw_only=True):
    """What the plugins are made of.

    kinds   those that the server has
    """

    host: HostCluster
    config: Config
    clock: Clock
    offloader: Offloader
    kinds: CustomKinds


class DelegatedAdmission:
    """The plugins of one server, and the copies that they read.

    plugins     the plugins, in order
    """

    def __init__(self, basis: Basis, copies: CopyStore, stores: StoreRegistry) -> None:
        """Raises ValueError for the name of an unknown plugin."""
        self.plugins = tuple(
            structs.replace(plugin, admit=None, load=functools.partial(self._load, plugin))
            for plugin in PLUGINS
            if plugin.name in COPIED
        )
        settings, scheme = basis.config.admission, copies.codecs.scheme
        self._scheme = scheme
        self._stores = stores
        self._reader = ReaderOfHost(basis.host, basis.clock, basis.offloader)
        mapping = basis.config.aggregation.service_resolver
        self._services = read_mapping(mapping) if mapping is not None else {}
        self._server: Server | None = None
        self._closers: list[Callable[[], Awaitable[None]]] = []
        enabled = enabled_plugins(
            self.plugins,
            enable=settings.enable_admission_plugins,
            disable=settings.disable_admission_plugins,
        )
        copied = dict.fromkeys(resource for plugin in enabled for resource in COPIED[plugin.name])
        self._reflectors: dict[tuple[GroupVersion, str], Reflector] = {}
        for version, name in copied:
            resource = scheme.declared_resource(version, name)
            path = f"/apis/{version}/{name}" if version.group else f"/api/{version}/{name}"
            self._reflectors[version, name] = Reflector(
                basis.host, path, StoredCopies(copies, resource), basis.clock, basis.offloader
            )

    def start(self) -> None:
        """Start to copy objects of the host."""
        for reflector in self._reflectors.values():
            reflector.start()

    async def stop(self) -> None:
        """End background work, and close the plugins. Idempotent."""
        for reflector in self._reflectors.values():
            await reflector.stop()
        while self._closers:
            await self._closers.pop()()
        await self._reader.stop()
        self._stores.stop()

    async def check_synced(self) -> None:
        """Raise Unhealthy until all copies have been complete once."""
        unsynced = [
            name
            for (_, name), reflector in self._reflectors.items()
            if not reflector.synced.is_set()
        ]
        if unsynced:
            raise Unhealthy(f"not synced with the host cluster: {', '.join(unsynced)}")

    # Hooks of plugins.

    def _load(self, plugin: Plugin, context: PluginContext) -> Hooks:
        """Return the hooks of a plugin, which read the copies."""
        resolve = functools.partial(_resolve_service, self._services)
        hooks = plugin.hooks(structs.replace(context, resolve_service=resolve))
        if hooks.close is not None:
            self._closers.append(hooks.close)
        name = plugin.name
        return Hooks(
            admit=None if hooks.admit is None else self._hook(name, hooks.admit),
            validate=None if hooks.validate is None else self._hook(name, hooks.validate),
            is_idle=None if hooks.is_idle is None else self._idle(name, hooks.is_idle),
        )

    def _hook(self, plugin: str, hook: Hook) -> Hook:
        async def run(
            server: Server, attributes: Attributes, new: Tree | None, old: Tree | None
        ) -> None:
            await self._wait_ready(plugin, attributes)
            await hook(self._with_copies(server), attributes, new, old)

        return run

    def _idle(self, plugin: str, is_idle: IsIdle) -> IsIdle:
        def is_idle_now(server: Server, attributes: Attributes) -> bool:
            return self._is_ready(plugin) and is_idle(self._with_copies(server), attributes)

        return is_idle_now

    def _is_ready(self, plugin: str) -> bool:
        return all(self._reflectors[resource].synced.is_set() for resource in COPIED[plugin])

    async def _wait_ready(self, plugin: str, attributes: Attributes) -> None:
        """Wait until the copies of a plugin are complete. Raises Forbidden if they are not soon."""
        if self._is_ready(plugin):
            return
        is_create = attributes.operation == "CREATE" and bool(attributes.target.key.namespace)
        if plugin == LIFECYCLE and not is_create:
            return  # it reads no namespace
        try:
            async with asyncio.timeout(READY_SECONDS):
                for resource in COPIED[plugin]:
                    await self._reflectors[resource].synced.wait()
        except TimeoutError:
            raise attributes.forbidden("not yet ready to handle request") from None

    def _with_copies(self, server: Server) -> Server:
        """Return the server with the copies in place of its stores."""
        if self._server is None:
            self._server = structs.replace(
                server, scheme=self._scheme, stores=self._stores, host_reader=self._reader
            )
        return self._server


async def _resolve_service(
    mapped: Mapped, _stores: StoreRegistry, namespace: str, name: str, port: int
) -> tuple[str, int]:
    """Return the address of a Service of the host: its name, as in Go's extension API servers,
    unless an administrator has given another one."""
    service = f"{namespace}/{name}"
    address = mapped.get(f"{service}:{port}") or mapped.get(service)
    if address is not None:
        return address.host, address.port
    return f"{name}.{namespace}.svc", port


@asynccontextmanager
async def open_admission(basis: Basis) -> AsyncIterator[DelegatedAdmission]:
    """Copy objects of the host until the block ends. Raises ValueError for an unknown plugin or an
    unusable file, StorageError."""
    config, clock, offloader = basis.config, basis.clock, basis.offloader
    # The kinds of the host, and those of the server, whose objects the plugins convert.
    scheme = Scheme()
    scheme.custom = basis.kinds
    codecs = CodecFactory(scheme)
    root = config.store.key_root
    async with open_copies(config, clock) as kv:
        stores = StoreRegistry(kv, scheme, codecs, clock, offloader, StoreOptions(root=root))
        copies = CopyStore(kv=kv, codecs=codecs, offloader=offloader, root=root)
        admission = DelegatedAdmission(basis, copies, stores)
        admission.start()
        try:
            yield admission
        finally:
            await admission.stop()
