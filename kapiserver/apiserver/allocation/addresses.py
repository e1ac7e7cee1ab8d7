"""The allocator of cluster IPs: each allocated address is an IPAddress object.

Object names are unique in the store, so that several servers never allocate an address twice.
Knows no rule about services. Mirrors pkg/registry/core/service/ipallocator of kube-apiserver.
"""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Iterator
from typing import TypeAlias

from kapiserver.api.accessors import is_terminating, name_of, namespace_of, value_at
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import ServiceSettings
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.cache.query import DeleteQuery
from kapiserver.storage.errors import AlreadyExists, NotFound
from kapiserver.storage.objects.lifecycle import timestamp
from kapiserver.storage.objects.object_store import ResourceStore
from kapiserver.storage.objects.store_registry import StoreRegistry

NETWORKING = GroupVersion("networking.k8s.io", "v1")
FAMILY_LABEL = "ipaddress.kubernetes.io/ip-family"
MANAGER_LABEL = "ipaddress.kubernetes.io/managed-by"
MANAGER = "ipallocator.k8s.io"

_MANAGED_FIELDS: Tree = {
    "f:metadata": {"f:labels": {".": {}, f"f:{FAMILY_LABEL}": {}, f"f:{MANAGER_LABEL}": {}}},
    "f:spec": {"f:parentRef": {".": {}, "f:name": {}, "f:namespace": {}, "f:resource": {}}},
}
"""The fields that kube-apiserver manages of an IPAddress that it created. A literal, because the
allocator writes to the store, below the code that computes it."""

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class NotAllocated(Exception):
    """An address cannot be allocated; the message is kube-apiserver's."""


FULL = "range is full"
ALREADY_ALLOCATED = "provided IP is already allocated"


class AddressAllocator:
    """Allocates and releases the cluster IPs of services."""

    def __init__(self, settings: ServiceSettings, stores: StoreRegistry) -> None:
        self._settings = settings
        self._stores = stores

    @property
    def store(self) -> ResourceStore:
        """The store of IPAddress objects."""
        return self._stores.by_name(NETWORKING, "ipaddresses")

    async def ranges(self) -> list[Network]:
        """Return the ranges of --service-cluster-ip-range and of ServiceCIDRs that are ready."""
        networks = dict.fromkeys(service_ranges(self._settings.service_cluster_ip_range))
        cidrs = self._stores.by_name(NETWORKING, "servicecidrs")
        for entry in await cidrs.cached_entries():
            tree = entry.tree()
            if not is_terminating(tree) and _is_ready(tree):
                for text in value_at(tree, "spec", "cidrs") or ():
                    networks[ipaddress.ip_network(text, strict=False)] = None
        return list(networks)

    async def allocate(self, address: str, service: Tree, *, dry_run: bool) -> None:
        """Allocate a requested address. Raises NotAllocated."""
        parsed = ipaddress.ip_address(address)
        ranges = await self.ranges()
        if not any(has_address(network, parsed) for network in ranges):
            raise NotAllocated(
                f"the provided IP ({address}) is not in the valid range. The range of valid IPs is "
                f"{', '.join(map(str, ranges))}"
            )
        if not dry_run:
            await self._create(parsed, service)

    async def allocate_next(self, family: str, service: Tree, *, dry_run: bool) -> str:
        """Allocate and return any free address of a family. Raises NotAllocated."""
        allocated = await self._allocated_names() if dry_run else None
        for network in await self.ranges():
            if f"IPv{network.version}" != family:
                continue
            for address in candidate_addresses(network, self._stores.identifiers.rng):
                if allocated is not None and str(address) in allocated:
                    continue
                if dry_run:
                    return str(address)
                try:
                    await self._create(address, service)
                except NotAllocated:
                    # In a nearly full range, trying every address with a write would take long.
                    allocated = allocated or await self._allocated_names()
                else:
                    return str(address)
        raise NotAllocated(FULL)

    async def release(self, address: str) -> None:
        """Release an address; one that is not allocated is ignored."""
        try:
            await self.store.delete(ObjectKey("", address), DeleteQuery())
        except NotFound:
            return

    async def _allocated_names(self) -> frozenset[str]:
        entries = await self.store.cached_entries()
        return frozenset(entry.key.name for entry in entries)

    async def _create(self, address: Address, service: Tree) -> None:
        tree: Tree = {
            "kind": "IPAddress",
            "apiVersion": str(NETWORKING),
            "metadata": {
                "name": str(address),
                "labels": {FAMILY_LABEL: f"IPv{address.version}", MANAGER_LABEL: MANAGER},
                "managedFields": [
                    {
                        "manager": "kube-apiserver",
                        "operation": "Update",
                        "apiVersion": str(NETWORKING),
                        "time": timestamp(self._stores.clock.now()),
                        "fieldsType": "FieldsV1",
                        "fieldsV1": _MANAGED_FIELDS,
                    }
                ],
            },
            "spec": {"parentRef": parent_of(service)},
        }
        try:
            await self.store.create(tree)
        except AlreadyExists:
            raise NotAllocated(ALREADY_ALLOCATED) from None


def parent_of(service: Tree) -> Tree:
    """Return the reference of an IPAddress to its service."""
    return {"resource": "services", "namespace": namespace_of(service), "name": name_of(service)}


def service_ranges(text: str) -> tuple[Network, ...]:
    """Parse `--service-cluster-ip-range`: one range, or one of each family. Raises ValueError."""
    networks = tuple(ipaddress.ip_network(part.strip()) for part in text.split(",") if part.strip())
    versions = {network.version for network in networks}
    if not networks or len(networks) > 2 or len(versions) != len(networks):
        raise ValueError("--service-cluster-ip-range takes one range of each family at most")
    return networks


def first_address(network: Network) -> Address:
    """Return the address of the service `kubernetes`."""
    return network.network_address + 1


def _is_ready(cidr: Tree) -> bool:
    for condition in value_at(cidr, "status", "conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True  # no controller may be running that sets the condition


def has_address(network: Network, address: Address) -> bool:
    """Report whether a service may have the address: in the range, and neither of its ends."""
    if address.version != network.version or address not in network:
        return False
    ends = [network.network_address]
    if network.version == 4:
        ends.append(network.broadcast_address)
    return address not in ends


def candidate_addresses(network: Network, rng: random.Random) -> Iterator[Address]:
    """Yield all addresses of a range that services may have, from a random start. The lower band,
    which is meant for requested addresses, comes last."""
    size = network.num_addresses - (2 if network.version == 4 else 1)
    total = network.num_addresses
    static_count = 0 if total <= 16 else min(max(16, total // 16), 256)
    first = first_address(network)
    for start, count in ((static_count, size - static_count), (0, static_count)):
        if count > 0:
            offset = rng.randrange(count)
            for number in range(count):
                yield first + (start + (offset + number) % count)
