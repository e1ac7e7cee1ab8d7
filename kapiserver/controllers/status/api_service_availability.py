"""Write the condition Available of APIServices.

Those that this server serves itself are available. Those of a service are not: this server has no
aggregation, so that it proxies no request to them. The condition names the first thing that is
missing on the way to the service, as kube-aggregator does, and in the end aggregation. Services and
endpoint slices are watched once an APIService names a service. Mirrors pkg/controllers/status of
k8s.io/kube-aggregator.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from kapiserver.api.accessors import value_at
from kapiserver.api.apiextensions.conditions import set_condition
from kapiserver.api.go_format import quote
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.subscriptions import Subscriptions
from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, Informer, ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

NAME = "apiservice-status-remote-available-controller"
_REGISTRATION = GroupVersion("apiregistration.k8s.io", "v1")
_CORE = GroupVersion("", "v1")
_DISCOVERY = GroupVersion("discovery.k8s.io", "v1")
_SERVICE_NAME = "kubernetes.io/service-name"
_DEFAULT_PORT = 443


class Availability(Struct, frozen=True):
    """The condition Available."""

    status: str
    reason: str
    message: str


_LOCAL = Availability("True", "Local", "Local APIServices are always available")


class _Endpoints(Struct, frozen=True):
    """The informers for services, and the slices by the key of their service."""

    services: Informer
    slices: Index


class APIServiceAvailability:
    """The control loop; its queue holds names of APIServices."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._server = server = context.server
        self._subscriptions = Subscriptions(server)
        self._queue: WorkQueue[str] = context.work_queue(self._reconcile, workers=1, name=NAME)
        self._endpoints: _Endpoints | None = None
        """None until an APIService names a service."""
        self._services: dict[str, ObjectKey] = {}
        """The service of each APIService that names one."""

    async def start(self) -> None:
        """Subscribe to APIServices, if they are served."""
        if self._server.scheme.is_served(_REGISTRATION):
            add = self._subscriptions.add
            self._api_services = add(_REGISTRATION, "apiservices", self._on_api_service)

    async def stop(self) -> None:
        """Stop, and cancel the reconciles in progress."""
        self._subscriptions.cancel()
        if self._endpoints is not None:
            self._endpoints.slices.cancel()
        await self._queue.stop()

    # Changes.

    def _on_api_service(self, change: ObjectChange) -> None:
        self._queue.add(change.last.key.name)

    def _on_service(self, change: ObjectChange) -> None:
        self._add_users(change.last.key)

    def _on_slice(self, change: ObjectChange) -> None:
        for entry in (change.old, change.new):
            if entry is not None and (name := entry.labels.get(_SERVICE_NAME)):
                self._add_users(ObjectKey(entry.key.namespace, name))

    def _add_users(self, service: ObjectKey) -> None:
        for name, key in self._services.items():
            if key == service:
                self._queue.add(name)

    # Reconciling.

    async def _reconcile(self, name: str) -> None:
        await self._subscriptions.wait_synced()
        entry = self._api_services.lister.get(ObjectKey("", name))
        reference = None if entry is None else value_at(entry.tree(), "spec", "service")
        if entry is None or reference is None:
            self._services.pop(name, None)
        else:
            key = ObjectKey(reference.get("namespace") or "", reference.get("name") or "")
            self._services[name] = key
        if entry is None:
            return
        spec = entry.tree()["spec"]
        availability = _LOCAL if reference is None else await self._of_service(spec)
        now = timestamp(self._server.clock.now())
        if _with_condition(entry.tree(), availability, now) == entry.tree():
            return
        objects = self._context.resource(str(_REGISTRATION), "apiservices")
        await update_object(
            objects,
            name,
            lambda current: _with_condition(current, availability, now),
            subresource="status",
        )

    async def _of_service(self, spec: Tree) -> Availability:
        """Return the availability of an APIService by its spec, which names a service."""
        endpoints = await self._watched_endpoints()
        reference = spec["service"]
        key = ObjectKey(reference.get("namespace") or "", reference.get("name") or "")
        entry = endpoints.services.lister.get(key)
        offloader = self._server.offloader
        service = None if entry is None else await offloader.tree(entry)
        slices = [
            await offloader.tree(each)
            for each in endpoints.slices.get(f"{key.namespace}/{key.name}")
        ]
        return availability_of(spec, service, slices)

    async def _watched_endpoints(self) -> _Endpoints:
        """Return the informers of services and slices; the first call subscribes to them."""
        if self._endpoints is None:
            add = self._subscriptions.add
            services = add(_CORE, "services", self._on_service)
            slices = add(_DISCOVERY, "endpointslices", self._on_slice)
            self._endpoints = _Endpoints(services, Index(slices, _service_of))
        await self._subscriptions.wait_synced()
        await self._endpoints.slices.wait_synced()
        return self._endpoints


def _service_of(entry: Entry) -> Iterable[str]:
    name = entry.labels.get(_SERVICE_NAME)
    return [f"{entry.key.namespace}/{name}"] if name else []


def _with_condition(api_service: Tree, availability: Availability, now: str) -> Tree:
    status = set_condition(
        api_service.get("status") or {},
        "Available",
        availability.status,
        availability.reason,
        availability.message,
        now=now,
    )
    return {**api_service, "status": status}


def availability_of(spec: Tree, service: Tree | None, slices: Sequence[Tree]) -> Availability:
    """Return the availability of an APIService by its spec, the service that it names, and the
    endpoint slices of that service."""
    reference = spec["service"]
    name, namespace = reference.get("name") or "", reference.get("namespace") or ""
    port = reference.get("port") or _DEFAULT_PORT
    described = f"service/{name} in {quote(namespace)}"
    if service is None:
        return _unavailable("ServiceNotFound", f"{described} is not present")
    if value_at(service, "spec", "type") == "ClusterIP":
        ports = value_at(service, "spec", "ports") or ()
        names = [each.get("name") or "" for each in ports if each.get("port") == port]
        if not names:
            return _unavailable("ServicePortError", f"{described} is not listening on port {port}")
        if not slices:
            message = f"cannot find endpointslices for {described}"
            return _unavailable("EndpointsNotFound", message)
        if not any(_has_endpoint(each, names[0]) for each in slices):
            message = (
                f"endpointslices for {described} have no addresses with port name {quote(names[0])}"
            )
            return _unavailable("MissingEndpoints", message)
    url = f"https://{name}.{namespace}.svc:{port}/apis/{spec.get('group')}/{spec.get('version')}"
    return _unavailable(
        "FailedDiscoveryCheck",
        f"failing or missing response from {url}: this server has no API aggregation",
    )


def _unavailable(reason: str, message: str) -> Availability:
    return Availability("False", reason, message)


def _has_endpoint(endpoint_slice: Tree, port_name: str) -> bool:
    """Whether a slice has a ready endpoint and the port."""
    ready = (
        value_at(each, "conditions", "ready") for each in endpoint_slice.get("endpoints") or ()
    )
    return any(each is None or each for each in ready) and any(
        (port.get("name") or "") == port_name and port.get("port") is not None
        for port in endpoint_slice.get("ports") or ()
    )
