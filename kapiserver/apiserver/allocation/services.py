"""Allocates the cluster IPs and node ports of a service before a write, and releases them after.

The order is addresses, ports, service. A crash in between leaves an address or port allocated
without a service, never the reverse; `allocation/repair.py` releases it. Mirrors beginCreate,
beginUpdate and afterDelete of pkg/registry/core/service/storage of kube-apiserver.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct, field

from kapiserver.api.accessors import name_of
from kapiserver.api.core import v1
from kapiserver.api.core.service_families import (
    Families,
    canonical_ip,
    default_ip_families,
    normalize_cluster_ips,
    patch_allocated_values,
)
from kapiserver.api.core.services import (
    EXTERNAL_NAME,
    HEADLESS,
    WITH_NODE_PORTS,
    is_headless,
    needs_health_check_node_port,
)
from kapiserver.api.errors import InvalidObject, Path, invalid
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.allocation.addresses import AddressAllocator, NotAllocated, service_ranges
from kapiserver.apiserver.allocation.ports import (
    PortAllocator,
    PortBitmap,
    PortNotAllocated,
    ports_of,
)
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.errors import InternalError
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.objects.store_registry import StoreRegistry

_SPEC = Path("spec")
_log = logging.getLogger(__name__)


class Allocation(Struct):
    """Addresses and node ports of a service."""

    addresses: list[str] = field(default_factory=list)
    ports: set[int] = field(default_factory=set)


class ServiceAllocation:
    """Allocates for services; the store calls `reserve` around each write."""

    def __init__(
        self, config: Config, codecs: CodecFactory, stores: StoreRegistry, offloader: Offloader
    ) -> None:
        self.addresses = AddressAllocator(config.services, stores)
        self.ports = PortAllocator(config, codecs, stores, offloader)
        ranges = service_ranges(config.services.service_cluster_ip_range)
        self._families = Families(names=tuple(f"IPv{network.version}" for network in ranges))

    @asynccontextmanager
    async def reserve(
        self, new: Tree | None, old: Tree | None, dry_run: bool
    ) -> AsyncIterator[None]:
        """Allocate on entry and release on exit (see Reserve in `storage/cache/query.py`). Raises
        InvalidObject, InternalError."""
        if new is None:
            yield
            if not dry_run:
                await self._release(allocation_of(old or {}))
            return
        allocated, released = Allocation(), Allocation()
        try:
            await self._prepare(new, old, allocated, released, dry_run=dry_run)
            yield
        except Unavailable:
            raise  # the write may have happened
        except Exception:
            if not dry_run:
                await self._release(allocated)
            raise
        if not dry_run:
            await self._release(released)

    async def _prepare(
        self,
        new: Tree,
        old: Tree | None,
        allocated: Allocation,
        released: Allocation,
        *,
        dry_run: bool,
    ) -> None:
        spec, old_spec = new.setdefault("spec", {}), (old or {}).get("spec") or {}
        if old is not None:
            patch_allocated_values(spec, old_spec)
        normalize_cluster_ips(spec, old_spec)
        family_fields = ("ipFamilyPolicy", "ipFamilies", "clusterIPs")
        unchanged = old_spec.get("ipFamilyPolicy") == "PreferDualStack" and all(
            spec.get(name) == old_spec.get(name) for name in family_fields
        )
        default_ip_families(new, old, self._families)
        if not unchanged or spec.get("type") == EXTERNAL_NAME:
            await self._allocate_addresses(new, old_spec, allocated, released, dry_run=dry_run)
        await self._allocate_ports(new, old, allocated, released, dry_run=dry_run)
        reorder_keys(spec, v1.ServiceSpec)

    # Addresses.

    async def _allocate_addresses(
        self,
        new: Tree,
        old_spec: Tree,
        allocated: Allocation,
        released: Allocation,
        *,
        dry_run: bool,
    ) -> None:
        spec = new["spec"]
        old_addresses: Sequence[str] = old_spec.get("clusterIPs") or ()
        if spec.get("type") == EXTERNAL_NAME:
            released.addresses.extend(address for address in old_addresses if address != HEADLESS)
            return
        if is_headless(spec) or old_addresses[:1] == [HEADLESS]:
            return
        families: Sequence[str] = spec.get("ipFamilies") or ()
        is_new = not old_spec or old_spec.get("type") == EXTERNAL_NAME
        family_count = 0 if is_new else len(old_spec.get("ipFamilies") or old_addresses)
        if len(families) < family_count:
            released.addresses.extend(old_addresses[len(families) :])
            return
        addresses: list[str] = list(spec.get("clusterIPs") or ())
        if family_count < len(families):
            addresses.extend("" for _ in families[len(addresses) :])
            for index in range(family_count, len(families)):
                address = await self._allocate_address(
                    new, addresses, index, families[index], dry_run=dry_run
                )
                addresses[index] = address
                allocated.addresses.append(canonical_ip(address))
            spec["clusterIPs"] = addresses
            spec["clusterIP"] = addresses[0]

    async def _allocate_address(
        self, new: Tree, addresses: Sequence[str], index: int, family: str, *, dry_run: bool
    ) -> str:
        address = addresses[index]
        try:
            if not address:
                return await self.addresses.allocate_next(family, new, dry_run=dry_run)
            await self.addresses.allocate(address, new, dry_run=dry_run)
        except NotAllocated as error:
            if not address:
                raise InternalError(f"failed to allocate a serviceIP: {error}") from None
            detail = f"failed to allocate IP {address}: {error}"
            raise _invalid(new, _SPEC / "clusterIPs", list(addresses), detail) from None
        return address

    # Ports.

    async def _allocate_ports(
        self,
        new: Tree,
        old: Tree | None,
        allocated: Allocation,
        released: Allocation,
        *,
        dry_run: bool,
    ) -> None:
        spec = new["spec"]
        old_ports = ports_of(old) if old is not None else set()
        has_node_ports = spec.get("type") in WITH_NODE_PORTS
        if not has_node_ports:
            released.ports |= old_ports  # validation refuses node ports in the new spec
            return
        node_ports = [port.get("nodePort") or 0 for port in spec.get("ports") or ()]
        health_port = spec.get("healthCheckNodePort") or 0

        def plan(ports: PortBitmap) -> None:
            # May be called again: start from the client's values.
            for port, number in zip(spec.get("ports") or (), node_ports, strict=True):
                port["nodePort"] = number
            spec["healthCheckNodePort"] = health_port
            allocated.ports.clear()
            _allocate_node_ports(new, old_ports, ports, allocated)
            _allocate_health_port(new, old_ports, ports, allocated)

        try:
            needs_node_ports = any(_needs_allocation(spec, node_ports, old_ports))
            if needs_node_ports or needs_health_check_node_port(spec):
                await self.ports.update(plan, dry_run=dry_run)
        except (InvalidObject, InternalError):
            allocated.ports.clear()  # the plan was not stored
            raise
        finally:
            for port in spec.get("ports") or ():
                if not port.get("nodePort"):
                    port.pop("nodePort", None)
                reorder_keys(port, v1.ServicePort)
            if not spec.get("healthCheckNodePort"):
                spec.pop("healthCheckNodePort", None)
        released.ports |= old_ports - ports_of(new)

    async def _release(self, allocation: Allocation) -> None:
        """Release the allocation; on an error the repair loop does it later."""
        try:
            for address in allocation.addresses:
                await self.addresses.release(address)
            if allocation.ports:
                await self.ports.update(lambda ports: ports.release(allocation.ports))
        except StorageError as error:
            _log.warning(
                "cannot release the addresses %s and the node ports %s, retrying later: %s",
                allocation.addresses,
                sorted(allocation.ports),
                error,
            )


def allocation_of(service: Tree) -> Allocation:
    """Return the addresses and ports of a service."""
    spec = service.get("spec") or {}
    addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    if spec.get("type") == EXTERNAL_NAME:
        addresses = []
    return Allocation(
        [canonical_ip(address) for address in addresses if address != HEADLESS], ports_of(service)
    )


def _needs_allocation(spec: Tree, node_ports: Sequence[int], old_ports: set[int]) -> Sequence[bool]:
    allocates = _allocates_node_ports(spec)
    return [number not in old_ports if number else allocates for number in node_ports]


def _allocates_node_ports(spec: Tree) -> bool:
    """Report whether ports without a node port get one."""
    return spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False


def _allocate_node_ports(
    new: Tree, old_ports: set[int], ports: PortBitmap, allocated: Allocation
) -> None:
    spec, allocates = new["spec"], _allocates_node_ports(new["spec"])
    node_port_by_port: dict[int, int] = {}  # a port of several protocols has one node port
    requested_by_port = {
        port["port"]: port["nodePort"]
        for port in reversed(spec.get("ports") or ())
        if port.get("nodePort") and port.get("port")
    }
    for index, port in enumerate(spec.get("ports") or ()):
        number = port.get("nodePort") or 0
        if not number and not allocates:
            continue
        if not number and not old_ports:
            number = (
                node_port_by_port.get(port.get("port") or 0)
                or requested_by_port.get(port.get("port") or 0)
                or 0
            )
        if not number:
            number = _next_port(ports)
        elif number not in old_ports and number not in allocated.ports:
            try:
                ports.allocate(number)
            except PortNotAllocated as error:
                path = (_SPEC / "ports")[index] / "nodePort"
                raise _invalid(new, path, number, str(error)) from None
        if number not in old_ports:
            allocated.ports.add(number)
        port["nodePort"] = number
        node_port_by_port.setdefault(port.get("port") or 0, number)


def _next_port(ports: PortBitmap) -> int:
    try:
        return ports.allocate_next()
    except PortNotAllocated as error:
        raise InternalError(f"failed to allocate a nodePort: {error}") from None


def _allocate_health_port(
    new: Tree, old_ports: set[int], ports: PortBitmap, allocated: Allocation
) -> None:
    spec = new["spec"]
    number = spec.get("healthCheckNodePort") or 0
    if not needs_health_check_node_port(spec) or number in old_ports:
        return
    try:
        if number:
            ports.allocate(number)
        else:
            number = spec["healthCheckNodePort"] = ports.allocate_next()
    except PortNotAllocated as error:
        description = "requested HealthCheck NodePort" if number else "a HealthCheck NodePort"
        raise InternalError(f"failed to allocate {description} {number}: {error}") from None
    allocated.ports.add(number)


def _invalid(service: Tree, path: Path, value: object, detail: str) -> InvalidObject:
    errors = [invalid(path, value, detail)]
    return InvalidObject(group="", kind="Service", name=name_of(service), errors=errors)
