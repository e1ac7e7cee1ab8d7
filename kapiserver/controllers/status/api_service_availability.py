"""Write the condition Available of APIServices.

Those that this server serves itself are available. Those of a service are if an extension API
server answers behind it; else the condition names the first thing that is missing on the way there.
Services and endpoint slices are watched once an APIService names a service, and the check is
repeated from then on. Mirrors pkg/controllers/status of k8s.io/kube-aggregator.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from kapiserver.api.accessors import value_at
from kapiserver.api.conditions import set_condition
from kapiserver.api.go_format import quote
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.aggregation.api_services import (
    REGISTRATION,
    APIService,
    ServiceReference,
    api_service_of,
)
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import label_value
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

_DISCOVERY = GroupVersion("discovery.k8s.io", "v1")
_SERVICE_NAME = "kubernetes.io/service-name"
CHECK_SECONDS = 30.0
"""How often each extension API server is checked: the network may fail without a change of any
object."""


class FailedCheck(Exception):
    """An extension API server did not answer: the check is to be repeated soon."""


class Availability(Struct, frozen=True):
    """The condition Available."""

    status: str
    reason: str
    message: str


_LOCAL = Availability("True", "Local", "Local APIServices are always available")
_PASSED = Availability("True", "Passed", "all checks passed")
_FAILED_CHECK = "FailedDiscoveryCheck"


class APIServiceAvailability(Controller[ObjectKey]):
    """The control loop; its queue holds keys of APIServices."""

    workers = 5
    min_retry_seconds = 0.005
    max_retry_seconds = 30.0

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._services: dict[ObjectKey, ServiceReference] = {}
        """The service of each APIService that names one."""
        self._is_resyncing = False

    def set_up(self) -> None:
        """Watch APIServices, if they are served."""
        if self.server.scheme.is_served(REGISTRATION):
            self._api_services = self.watch(REGISTRATION, "apiservices", _for_spec)

    async def reconcile(self, key: ObjectKey) -> None:
        """Write the condition of an APIService, unless it is true already. Raises FailedCheck."""
        entry = self._api_services.lister.get(key)
        if entry is None:
            self._services.pop(key, None)
            self.server.metrics.unavailable_api_services.values.pop(key.name, None)
            return
        api_service = api_service_of(entry.tree())
        if api_service.service is None:
            self._services.pop(key, None)
            await self._write(entry.tree(), api_service, _LOCAL)
            return
        self._services[key] = api_service.service
        self._begin_to_resync()
        availability = await self._of_service(api_service, api_service.service)
        await self._write(entry.tree(), api_service, availability)
        if availability.reason == _FAILED_CHECK:
            raise FailedCheck(availability.message)

    def _begin_to_resync(self) -> None:
        if not self._is_resyncing:
            self._is_resyncing = True
            self.resync(CHECK_SECONDS, lambda: tuple(self._services), delay=CHECK_SECONDS)

    async def _write(self, obj: Tree, api_service: APIService, availability: Availability) -> None:
        is_available, name = availability.status == "True", api_service.name
        metrics = self.server.metrics
        metrics.unavailable_api_services.set(name, 0 if is_available else 1)
        now = timestamp(self.clock.now())
        if _with_condition(obj, availability, now) == obj:
            return
        await update_object(
            self.context.resource(str(REGISTRATION), "apiservices"),
            name,
            lambda current: _with_condition(current, availability, now),
            subresource="status",
        )
        if api_service.is_available and not is_available:
            metrics.lost_api_services.add((name, availability.reason))

    async def _of_service(self, api_service: APIService, service: ServiceReference) -> Availability:
        back_ends = self.server.back_ends()
        if back_ends.resolver.mapped(service) is None:
            missing = await self._missing(service)
            if missing is not None:
                return missing
        # Imported here, because most servers have no extension API server.
        from kapiserver.apiserver.aggregation.discovery_check import discovery_failure

        failure = await discovery_failure(back_ends, api_service)
        return _unavailable(_FAILED_CHECK, failure) if failure else _PASSED

    async def _missing(self, service: ServiceReference) -> Availability | None:
        """Return what is missing on the way to a service, or None."""
        services = self.watch(CORE, "services", self._users_of_service)
        index = self._slices_by_service
        self.watch(_DISCOVERY, "endpointslices", self._users_of_slice, index)
        await self.wait_synced()
        key = ObjectKey(service.namespace, service.name)
        entry = services.lister.get(key)
        offloader = self.server.offloader
        obj = None if entry is None else await offloader.tree(entry)
        slices = [await offloader.tree(entry) for entry in index.get(str(key))]
        return missing_part(service, obj, slices)

    @functools.cached_property
    def _slices_by_service(self) -> Index:
        return Index(label_value(_SERVICE_NAME))

    def _users_of_service(self, change: ObjectChange) -> Iterator[ObjectKey]:
        return self._users_of(change.last.key)

    def _users_of_slice(self, change: ObjectChange) -> Iterator[ObjectKey]:
        for entry in (change.old, change.new):
            if entry is not None and (name := entry.labels.get(_SERVICE_NAME)):
                yield from self._users_of(ObjectKey(entry.key.namespace, name))

    def _users_of(self, key: ObjectKey) -> Iterator[ObjectKey]:
        return (user for user, service in self._services.items() if service[:2] == key)


def _for_spec(change: ObjectChange) -> Iterable[ObjectKey]:
    """Queue an APIService unless only its status changed, which this controller writes."""
    versions = (change.old, change.new)
    specs = [version.tree().get("spec") for version in versions if version is not None]
    has_changed = len(specs) < 2 or specs[0] != specs[1]
    return (change.last.key,) if has_changed else ()


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


def missing_part(
    service: ServiceReference, obj: Tree | None, slices: Sequence[Tree]
) -> Availability | None:
    """Return what is missing on the way to a service, or None. `obj` is the Service, if it exists,
    and `slices` are its endpoint slices."""
    described = f"service/{service.name} in {quote(service.namespace)}"
    if obj is None:
        return _unavailable("ServiceNotFound", f"{described} is not present")
    if value_at(obj, "spec", "type") != "ClusterIP":
        return None
    ports = value_at(obj, "spec", "ports") or ()
    names = [port.get("name") or "" for port in ports if port.get("port") == service.port]
    if not names:
        message = f"{described} is not listening on port {service.port}"
        return _unavailable("ServicePortError", message)
    if not slices:
        return _unavailable("EndpointsNotFound", f"cannot find endpointslices for {described}")
    if not any(_has_endpoint(slice_, names[0]) for slice_ in slices):
        port_name = quote(names[0])
        message = f"endpointslices for {described} have no addresses with port name {port_name}"
        return _unavailable("MissingEndpoints", message)
    return None


def _unavailable(reason: str, message: str) -> Availability:
    return Availability("False", reason, message)


def _has_endpoint(endpoint_slice: Tree, port_name: str) -> bool:
    """Whether a slice has a ready endpoint and the port."""
    ready = (
        value_at(endpoint, "conditions", "ready")
        for endpoint in endpoint_slice.get("endpoints") or ()
    )
    return any(
        is_endpoint_ready is None or is_endpoint_ready for is_endpoint_ready in ready
    ) and any(
        (port.get("name") or "") == port_name and port.get("port") is not None
        for port in endpoint_slice.get("ports") or ()
    )
