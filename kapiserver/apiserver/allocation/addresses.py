"""The addresses of services: each one taken is an IPAddress object, so that the store itself sees
to it that none is taken twice, by however many servers.

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
from kapiserver.apiserver.config import Config
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import AlreadyExists, NotFound
from kapiserver.storage.object_store import ResourceStore
from kapiserver.storage.query import DeleteQuery, ListQuery
from kapiserver.storage.store_registry import StoreRegistry

NETWORKING = GroupVersion("networking.k8s.io", "v1")
FAMILY_LABEL = "ipaddress.kubernetes.io/ip-family"
MANAGER_LABEL = "ipaddress.kubernetes.io/managed-by"
MANAGER = "ipallocator.k8s.io"

Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class NotAllocated(Exception):
    """No such address to be had; the message is kube-apiserver's."""


FULL = "range is full"
TAKEN = "provided IP is already allocated"
OUTSIDE = "the provided network does not match the current range"


class Addresses:
    """All addresses that services may have, and those they have."""

    def __init__(self, config: Config, stores: StoreRegistry) -> None:
        self._config = config
        self._stores = stores
        self._random = random.Random()

    @property
    def store(self) -> ResourceStore:
        """The IPAddress objects."""
        return self._stores.by_name(NETWORKING, "ipaddresses")

    async def ranges(self) -> list[Network]:
        """The cluster's own ranges and those of ServiceCIDRs that are in use."""
        found = dict.fromkeys(service_ranges(self._config.service_cluster_ip_range))
        cidrs = self._stores.by_name(NETWORKING, "servicecidrs")
        for entry in (await cidrs.list(ListQuery(resource_version="0"))).entries:
            tree = entry.tree()
            if not is_terminating(tree) and _is_ready(tree):
                for text in value_at(tree, "spec", "cidrs") or ():
                    found[ipaddress.ip_network(text, strict=False)] = None
        return list(found)

    async def take(self, address: str, service: Tree, *, dry_run: bool) -> None:
        """Take one that was asked for. Raises NotAllocated."""
        wanted = ipaddress.ip_address(address)
        if not any(has_address(one, wanted) for one in await self.ranges()):
            raise NotAllocated(OUTSIDE)
        if not dry_run:
            await self._create(wanted, service)

    async def take_next(self, family: str, service: Tree, *, dry_run: bool) -> str:
        """Take any of a family. Raises NotAllocated."""
        used = await self._used() if dry_run else None
        for network in await self.ranges():
            if f"IPv{network.version}" != family:
                continue
            for address in candidates(network, self._random):
                if used is not None and str(address) in used:
                    continue
                if dry_run:
                    return str(address)
                try:
                    await self._create(address, service)
                except NotAllocated:
                    # Trying one after the other would take long in a range that is nearly full.
                    used = used or await self._used()
                else:
                    return str(address)
        raise NotAllocated(FULL)

    async def give_back(self, address: str) -> None:
        """Release one that a service had."""
        try:
            await self.store.delete(ObjectKey("", address), DeleteQuery())
        except NotFound:
            return

    async def _used(self) -> frozenset[str]:
        entries = (await self.store.list(ListQuery(resource_version="0"))).entries
        return frozenset(entry.key.name for entry in entries)

    async def _create(self, address: Address, service: Tree) -> None:
        tree: Tree = {
            "kind": "IPAddress",
            "apiVersion": str(NETWORKING),
            "metadata": {
                "name": str(address),
                "labels": {FAMILY_LABEL: f"IPv{address.version}", MANAGER_LABEL: MANAGER},
            },
            "spec": {"parentRef": parent_of(service)},
        }
        try:
            await self.store.create(tree)
        except AlreadyExists:
            raise NotAllocated(TAKEN) from None


def parent_of(service: Tree) -> Tree:
    """How an IPAddress names the service that has it."""
    return {"resource": "services", "namespace": namespace_of(service), "name": name_of(service)}


def service_ranges(text: str) -> tuple[Network, ...]:
    """The ranges of `--service-cluster-ip-range`: one, or one of each family. Raises ValueError."""
    found = tuple(ipaddress.ip_network(one.strip()) for one in text.split(",") if one.strip())
    if not found or len(found) > 2 or len({one.version for one in found}) != len(found):
        raise ValueError("--service-cluster-ip-range takes one range of each family at most")
    return found


def first_address(network: Network) -> Address:
    """That of the service `kubernetes`."""
    return network.network_address + 1


def _is_ready(cidr: Tree) -> bool:
    for condition in value_at(cidr, "status", "conditions") or ():
        if condition.get("type") == "Ready":
            return bool(condition.get("status") == "True")
    return True  # nobody may be there to say so


def has_address(network: Network, address: Address) -> bool:
    """Whether a service may have that address of a range."""
    if address.version != network.version or address not in network:
        return False
    ends = [network.network_address]
    if network.version == 4:
        ends.append(network.broadcast_address)
    return address not in ends


def candidates(network: Network, chance: random.Random) -> Iterator[Address]:
    """All addresses that services may have of a range, from anywhere; those above the band that is
    best for static ones come first."""
    size = network.num_addresses - (2 if network.version == 4 else 1)
    band = 0 if network.num_addresses <= 16 else min(max(16, network.num_addresses // 16), 256)
    first = first_address(network)
    for start, count in ((band, size - band), (0, band)):
        if count > 0:
            offset = chance.randrange(count)
            for number in range(count):
                yield first + (start + (offset + number) % count)
