"""Write the condition Available of APIServices.

Those that this server serves itself are available. Those of a service are not: this server has no
aggregation, so that it proxies no request to them. The condition names the first thing that is
missing on the way to the service, as kube-aggregator does, and in the end aggregation. Services and
endpoint slices are watched once an APIService names a service. Mirrors pkg/controllers/status of
k8s.io/kube-aggregator.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kapiserver.api.accessors import value_at
from kapiserver.api.apiextensions.conditions import set_condition
from kapiserver.api.go_format import quote
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object, label_value
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

_REGISTRATION = GroupVersion("apiregistration.k8s.io", "v1")
_DISCOVERY = GroupVersion("discovery.k8s.io", "v1")
_SERVICE_NAME = "kubernetes.io/service-name"
_DEFAULT_PORT = 443


class Availability(Struct, frozen=True):
    """The condition Available."""

    status: str
    reason: str
    message: str


_LOCAL = Availability("True", "Local", "Local APIServices are always available")


class APIServiceAvailability(Controller[ObjectKey]):
    """The control loop; its queue holds keys of APIServices."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._slices_by_service = Index(label_value(_SERVICE_NAME))
        self._services: dict[ObjectKey, ObjectKey] = {}
        """The service of each APIService that names one."""

    def set_up(self) -> None:
        """Watch APIServices, if they are served."""
        if self.server.scheme.is_served(_REGISTRATION):
            self._api_services = self.watch(_REGISTRATION, "apiservices", for_object)

    def _users_of_service(self, change: ObjectChange) -> Iterator[ObjectKey]:
        return self._users_of(change.last.key)

    def _users_of_slice(self, change: ObjectChange) -> Iterator[ObjectKey]:
        for entry in (change.old, change.new):
            if entry is not None and (name := entry.labels.get(_SERVICE_NAME)):
                yield from self._users_of(ObjectKey(entry.key.namespace, name))

    def _users_of(self, service: ObjectKey) -> Iterator[ObjectKey]:
        return (user for user, key in self._services.items() if key == service)

    async def reconcile(self, key: ObjectKey) -> None:
        """Write the condition of an APIService, unless it is true already."""
        entry = self._api_services.lister.get(key)
        reference = None if entry is None else value_at(entry.tree(), "spec", "service")
        if entry is None or reference is None:
            self._services.pop(key, None)
        else:
            self._services[key] = _service_key(reference)
        if entry is None:
            return
        spec = entry.tree()["spec"]
        availability = _LOCAL if reference is None else await self._of_service(spec)
        now = timestamp(self.clock.now())
        if _with_condition(entry.tree(), availability, now) == entry.tree():
            return
        objects = self.context.resource(str(_REGISTRATION), "apiservices")
        await update_object(
            objects,
            key.name,
            lambda current: _with_condition(current, availability, now),
            subresource="status",
        )

    async def _of_service(self, spec: Tree) -> Availability:
        """Return the availability of an APIService by its spec, which names a service."""
        services = self.watch(CORE, "services", self._users_of_service)
        index = self._slices_by_service
        self.watch(_DISCOVERY, "endpointslices", self._users_of_slice, index)
        await self.wait_synced()
        key = _service_key(spec["service"])
        entry = services.lister.get(key)
        offloader = self.server.offloader
        service = None if entry is None else await offloader.tree(entry)
        slices = [await offloader.tree(each) for each in index.get(str(key))]
        return availability_of(spec, service, slices)


def _service_key(reference: Tree) -> ObjectKey:
    return ObjectKey(reference.get("namespace") or "", reference.get("name") or "")


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
