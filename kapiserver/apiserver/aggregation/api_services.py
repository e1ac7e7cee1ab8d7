"""The APIServices: who serves each group-version, this server or an extension API server.

`APIServices` follows the objects and answers, for the path of a request, which extension API server
gets the request. Without an APIService that names a Service it only counts them. Mirrors
apiservice_controller.go and the path handling of apiserver.go of k8s.io/kube-aggregator.
"""

from __future__ import annotations

import base64
import binascii
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from msgspec import Struct

from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.group import GroupVersion
from kapiserver.api.scheme import Scheme
from kapiserver.api.types import Tree
from kapiserver.storage.concurrency.subscriptions import Subscribers, Subscription
from kapiserver.storage.errors import StorageError
from kapiserver.storage.objects.informer import InformerSubscription, ObjectChange
from kapiserver.storage.objects.object_store import ResourceStore
from kapiserver.storage.objects.store_registry import StoreRegistry

REGISTRATION = GroupVersion("apiregistration.k8s.io", "v1")
DEFAULT_PORT = 443
_LEGACY = GroupVersion("", "v1")

_log = logging.getLogger(__name__)


class ServiceReference(NamedTuple):
    """The Service in front of an extension API server, and its port."""

    namespace: str
    name: str
    port: int

    @property
    def server_name(self) -> str:
        """The name that the certificate of the extension API server must have."""
        return f"{self.name}.{self.namespace}.svc"


class APIService(Struct, frozen=True, kw_only=True):
    """One APIService.

    service         the Service that serves the group-version; None: this server does
    ca_bundle       PEM of the CAs of its certificate; "" means those of the system
    is_unverified   whether its certificate is not verified
    is_available    whether the condition Available is true
    """

    name: str
    version: GroupVersion
    group_priority: int
    version_priority: int
    service: ServiceReference | None = None
    ca_bundle: str = ""
    is_unverified: bool = False
    is_available: bool = False

    @property
    def path(self) -> str:
        """The path of the documents of its group-version."""
        group, version = self.version
        return f"/apis/{group}/{version}" if group else f"/api/{version}"


def api_service_of(obj: Tree) -> APIService:
    """Return what an APIService object says."""
    spec = obj.get("spec") or {}
    return APIService(
        name=name_of(obj),
        version=GroupVersion(spec.get("group") or "", spec.get("version") or ""),
        group_priority=spec.get("groupPriorityMinimum") or 0,
        version_priority=spec.get("versionPriority") or 0,
        service=service_of(spec),
        ca_bundle=_decoded(spec.get("caBundle") or ""),
        is_unverified=bool(spec.get("insecureSkipTLSVerify")),
        is_available=any(
            condition.get("type") == "Available" and condition.get("status") == "True"
            for condition in value_at(obj, "status", "conditions") or ()
        ),
    )


def service_of(spec: Tree) -> ServiceReference | None:
    """Return the Service that the spec of an APIService names, or None."""
    reference = spec.get("service")
    if reference is None:
        return None
    namespace, name = reference.get("namespace") or "", reference.get("name") or ""
    return ServiceReference(namespace, name, reference.get("port") or DEFAULT_PORT)


def _decoded(text: str) -> str:
    try:
        return base64.b64decode(text).decode("ascii", "replace")
    except binascii.Error:
        return text  # not PEM: the first connection reports it


class OpenAPISource(Struct, frozen=True, kw_only=True):
    """What is known of the OpenAPI documents of an extension API server.

    v3_url  path and query of the v3 document of the group-version; "" if there is none
    v2      the part of its v2 document that is about the group-version; None if there is none
    etag    that of the v2 document
    """

    v3_url: str = ""
    v2: Tree | None = None
    etag: str = ""


OnDiscovered: TypeAlias = Callable[[], None]
"""A function that is called when the resources of an APIService have become known or unknown."""
OnChanged: TypeAlias = Callable[[str], None]
"""A function that takes the name of an APIService that changed, and names a Service now or named
one before."""


class APIServices:
    """All APIServices by name, and those that name a Service.

    by_name     all of them
    remote      those that name a Service
    discovery   the version of each remote one for aggregated discovery, once it is fetched
    openapi     where the OpenAPI of each remote one is, once that is known
    """

    def __init__(self, scheme: Scheme, stores: StoreRegistry) -> None:
        self.by_name: dict[str, APIService] = {}
        self.remote: Mapping[str, APIService] = {}
        self.discovery: dict[str, Tree] = {}
        self.openapi: Mapping[str, OpenAPISource] = {}
        self._by_version: dict[tuple[str, str], APIService] = {}
        self._scheme = scheme
        self._stores = stores
        self._subscribers = Subscribers[OnChanged]()
        self._discovery_subscribers = Subscribers[OnDiscovered]()
        self._subscription: InformerSubscription | None = None

    @property
    def store(self) -> ResourceStore:
        """The store of APIServices."""
        return self._stores.by_name(REGISTRATION, "apiservices")

    async def start(self) -> None:
        """Load all APIServices and follow their changes. If the store cannot be read now, they are
        loaded later."""
        if not self._scheme.is_served(REGISTRATION):
            return
        self._subscription = self.store.informer.subscribe_batches(self._on_changes)
        try:
            await self._subscription.wait_synced()
        except StorageError as error:
            _log.warning("APIServices: %s; retrying", error)

    def stop(self) -> None:
        """Stop following changes."""
        if self._subscription is not None:
            self._subscription.cancel()

    def subscribe(self, on_changed: OnChanged) -> Subscription:
        """Call a handler with the name of each APIService that names a Service, or did so before
        its change, from now on."""
        return self._subscribers.subscribe(on_changed)

    def subscribe_discovery(self, on_discovered: OnDiscovered) -> Subscription:
        """Call a handler when `discovery` or `remote` has changed, from now on."""
        return self._discovery_subscribers.subscribe(on_discovered)

    def find(self, path: str) -> APIService | None:
        """Return the APIService whose Service gets the requests for a path, or None if this server
        handles the path itself."""
        if not self._by_version:
            return None
        _, prefix, *segments = path.split("/", 4)
        if prefix == "apis" and len(segments) >= 2:
            return self._by_version.get((segments[0], segments[1]))
        return self._by_version.get(_LEGACY) if prefix == "api" else None

    def server_of(self, version: GroupVersion) -> APIService | None:
        """Return the APIService whose Service serves a group-version, or None if this server
        does."""
        return self._by_version.get(version)

    def set_discovery(self, name: str, version: Tree | None) -> None:
        """Keep what aggregated discovery shows of an APIService; None if it cannot be fetched."""
        old = self.discovery.get(name)
        if version is None:
            self.discovery.pop(name, None)
        elif name in self.remote:
            self.discovery[name] = version
        if self.discovery.get(name) != old:
            self._notify_discovered()

    def set_openapi(self, name: str, source: OpenAPISource) -> None:
        """Keep what is known of the OpenAPI of an APIService."""
        if name in self.remote and self.openapi.get(name) != source:
            self.openapi = {**self.openapi, name: source}

    def priorities(self, version: GroupVersion) -> tuple[int, int] | None:
        """Return the priorities of a group-version, of its group and of its version; None if it has
        no APIService."""
        api_service = self.by_name.get(f"{version.version}.{version.group}")
        if api_service is None:
            return None
        return api_service.group_priority, api_service.version_priority

    def _on_changes(self, changes: Sequence[ObjectChange]) -> None:
        changed = []
        for change in changes:
            name, entry = change.last.key.name, change.new
            old = self.by_name.pop(name, None)
            new = None if entry is None else api_service_of(entry.tree())
            if new is not None:
                self.by_name[name] = new
            if new != old and (_is_remote(old) or _is_remote(new)):
                changed.append(name)
        if changed:
            self.remote = {
                name: api_service
                for name, api_service in self.by_name.items()
                if _is_remote(api_service)
            }
            for name in self.discovery.keys() - self.remote.keys():
                del self.discovery[name]
            self.openapi = {
                name: source for name, source in self.openapi.items() if name in self.remote
            }
            self._by_version = {
                api_service.version: api_service
                for api_service in self.remote.values()
                if api_service.version.group != REGISTRATION.group
            }
        for name in changed:
            for on_changed in self._subscribers:
                on_changed(name)
        if changed:
            self._notify_discovered()

    def _notify_discovered(self) -> None:
        for on_discovered in self._discovery_subscribers:
            on_discovered()


def _is_remote(api_service: APIService | None) -> bool:
    return api_service is not None and api_service.service is not None
