"""The service `kubernetes`, its endpoints, and the ranges that services get addresses from.

Every server of a shared store registers its address with a lease and renews it; the endpoints are
the addresses with a lease. A store in a file or in memory has one server, which needs no lease.
Mirrors
kube-apiserver's kubernetesservice and defaultservicecidr controllers and its lease reconciler.
"""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Iterable

from msgspec import Struct

from kapiserver.api.accessors import name_of
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.allocation.addresses import NETWORKING, first_address, service_ranges
from kapiserver.apiserver.serving.server import ALL_ADDRESSES
from kapiserver.controllers.defaults.bootstrap import canonical_tree
from kapiserver.controllers.defaults.priority_classes import create_priority_classes
from kapiserver.controllers.endpoints.apiserver_endpoints import (
    ServerAddress,
    address_of_lease,
    endpoints,
    slices,
)
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import create_missing, delete_object, update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.query import ListQuery
from kapiserver.storage.errors import NotFound, StorageError
from kapiserver.storage.kv.leased_key import renew_key
from kapiserver.storage.objects.informer import ObjectChange

NAME = "kubernetes"
NAMESPACE = "default"
LEASE_SECONDS = 15
RENEW_SECONDS = 10.0
_LABELS = {"component": "apiserver", "provider": "kubernetes"}
_READY = "Kubernetes default Service CIDR is ready"

_log = logging.getLogger(__name__)


class KubernetesService(Controller[str]):
    """The control loop; its queue holds the name of the service.

    server_address  where clients in the cluster reach this server; None: nowhere
    """

    max_retry_seconds = 1.0  # the lease of this server ends soon

    def __init__(
        self, context: ControllerContext, server_address: ServerAddress | None, port: int
    ) -> None:
        super().__init__(context)
        self._place = server_address
        self._port = port
        self._leases = f"{self.server.config.store.key_root}/masterleases/"
        self._shared = self.server.stores.kv.shared

    def set_up(self) -> None:
        """Watch services and endpoints, and renew the lease of this server if others share the
        store."""
        for resource in ("services", "endpoints"):
            self.watch(CORE, resource, _for_service)
        if self._shared:
            self.resync(RENEW_SECONDS, lambda: [NAME])
        else:
            self.queue.add(NAME)

    async def stop(self) -> None:
        """Stop. If other servers share the store, complete the write in progress first, and remove
        this server from the endpoints."""
        if self._shared:
            await self.queue.wait_idle()
        await super().stop()
        if self._shared and self._place is not None:
            try:
                await self._leave(self._place)
            except (StorageError, StatusError) as error:
                _log.info("this server stays in the endpoints of kubernetes: %s", error)

    async def reconcile(self, _name: str) -> None:
        """Restore the service, its endpoints and what else every cluster has."""
        await self._keep()
        await create_priority_classes(self.context)

    async def _keep(self) -> None:
        await self._keep_range()
        await self._keep_service()
        server_addresses = await self._server_addresses()
        if server_addresses:
            await self._keep_endpoints(server_addresses)

    # The range and the service.

    async def _keep_range(self) -> None:
        store = self.server.stores.by_name(NETWORKING, "servicecidrs")
        cidrs = self.context.resource(str(NETWORKING), "servicecidrs")
        key = ObjectKey("", NAME)
        ranges = service_ranges(self.server.config.services.service_cluster_ip_range)
        try:
            cidr = (await store.get(key)).tree()
        except NotFound:
            spec = {"cidrs": [str(network) for network in ranges]}
            await create_missing(cidrs, _object(NETWORKING, "ServiceCIDR", {"name": NAME}, spec))
            cidr = (await store.get(key)).tree()
        if (cidr.get("status") or {}).get("conditions"):
            return
        condition = {
            "type": "Ready",
            "status": "True",
            "lastTransitionTime": cidr["metadata"]["creationTimestamp"],
            "reason": "",
            "message": _READY,
        }

        def mark_ready(current: Tree) -> Tree:
            return current | {"status": {"conditions": [condition]}}

        await update_object(cidrs, NAME, mark_ready, subresource="status")

    async def _keep_service(self) -> None:
        store = self.server.stores.by_name(CORE, "services")
        try:
            await store.get(ObjectKey(NAMESPACE, NAME))
            return
        except NotFound:
            pass
        network = service_ranges(self.server.config.services.service_cluster_ip_range)[0]
        address = str(first_address(network))
        await self._free(address)
        metadata: Tree = {"name": NAME, "namespace": NAMESPACE, "labels": dict(_LABELS)}
        port = {"name": "https", "protocol": "TCP", "port": 443, "targetPort": self._port}
        spec = {
            "ports": [port],
            "clusterIP": address,
            "type": "ClusterIP",
            "ipFamilyPolicy": "SingleStack",
        }
        services = self.context.resource("v1", "services", namespace=NAMESPACE)
        await create_missing(services, _object(CORE, "Service", metadata, spec))

    async def _free(self, address: str) -> None:
        """Delete the IPAddress if it belongs to an earlier service `kubernetes`."""
        store = self.server.stores.by_name(NETWORKING, "ipaddresses")
        try:
            ip_address = (await store.get(ObjectKey("", address))).tree()
        except NotFound:
            return
        parent = (ip_address.get("spec") or {}).get("parentRef") or {}
        if parent.get("name") == NAME and parent.get("namespace") == NAMESPACE:
            await delete_object(self.context.resource(str(NETWORKING), "ipaddresses"), address)

    # Where servers are.

    async def _server_addresses(self) -> list[ServerAddress]:
        """Return the addresses of all servers, after renewing the lease of this one."""
        if not self._shared:
            return [self._place] if self._place is not None else []
        if self._place is not None:
            await self._renew(self._place)
        page = await self.server.stores.kv.range(self._leases)
        addresses = (address_of_lease(self.server.codecs, item.value) for item in page.items)
        return sorted(address for address in addresses if address is not None)

    async def _renew(self, server_address: ServerAddress) -> None:
        value = server_address.lease(self.server.codecs)
        key = f"{self._leases}{server_address}"
        await renew_key(self.server.stores.kv, key, lambda _: value, ttl=LEASE_SECONDS)

    async def _leave(self, server_address: ServerAddress) -> None:
        kv, key = self.server.stores.kv, f"{self._leases}{server_address}"
        item = (await kv.get(key)).item
        if item is not None:
            await kv.delete(key, expected=item.revision)
        page = await kv.range(self._leases)
        addresses = (address_of_lease(self.server.codecs, item.value) for item in page.items)
        server_addresses = sorted(address for address in addresses if address is not None)
        if server_addresses:
            await self._keep_endpoints(server_addresses)

    async def _keep_endpoints(self, server_addresses: list[ServerAddress]) -> None:
        version, desired = endpoints(server_addresses)
        await self._keep_object(version, "endpoints", desired)
        version, desired_slices = slices(server_addresses)
        if not self.server.scheme.is_served(version):
            return
        for desired in desired_slices:
            await self._keep_object(version, "endpointslices", desired)
        names = {name_of(desired) for desired in desired_slices}
        store = self.server.stores.by_name(version, "endpointslices")
        objects = self.context.resource(str(version), "endpointslices", namespace=NAMESPACE)
        for entry in (await store.list(ListQuery(namespace=NAMESPACE))).entries:
            is_ours = entry.labels.get("kubernetes.io/service-name") == NAME
            if is_ours and entry.key.name not in names:
                await delete_object(objects, entry.key.name)

    async def _keep_object(self, version: GroupVersion, resource: str, desired: Tree) -> None:
        """Create an object, or restore its content."""
        name = name_of(desired)
        store = self.server.stores.by_name(version, resource)
        objects = self.context.resource(str(version), resource, namespace=NAMESPACE)
        try:
            entry = await store.get(ObjectKey(NAMESPACE, name))
        except NotFound:
            await create_missing(objects, desired)
            return
        existing = await self.server.offloader.tree(entry, limited=False)
        content = {
            field: value
            for field, value in canonical_tree(self.server.codecs, desired).items()
            if field in desired and field not in ("kind", "apiVersion", "metadata")
        }
        if any(existing.get(field) != value for field, value in content.items()):
            await update_object(objects, name, lambda current: current | content)


def _for_service(change: ObjectChange) -> Iterable[str]:
    return (NAME,) if change.last.key == (NAMESPACE, NAME) else ()


def _object(version: GroupVersion, kind: str, metadata: Tree, spec: Tree) -> Tree:
    return {"kind": kind, "apiVersion": str(version), "metadata": metadata, "spec": spec}


class _Probe(Struct, frozen=True):
    """A remote address. The route to it determines the local address; no packet is sent."""

    family: socket.AddressFamily
    address: str


_PROBES = (_Probe(socket.AF_INET, "192.0.2.1"), _Probe(socket.AF_INET6, "2001:db8::1"))


def reached_at(bind_address: str) -> str:
    """Return the address at which others reach this machine, or "" if there is none: the bind
    address unless that is the loopback or a wildcard."""
    if bind_address not in (*ALL_ADDRESSES, "::1") and not bind_address.startswith("127."):
        return bind_address
    for probe in _PROBES:
        with contextlib.suppress(OSError), socket.socket(probe.family, socket.SOCK_DGRAM) as sock:
            sock.connect((probe.address, 9))
            local: str = sock.getsockname()[0]
            if not local.startswith(("127.", "169.254.")) and local != "::1":
                return local
    return ""
