"""The repair loop of service allocation: releases addresses and ports that no service has, and
allocates those of services that are not allocated.

An address may be allocated before its service is written, here or by another server. Therefore an
address or port is released only if two consecutive runs find it unused. Mirrors
pkg/registry/core/service/{ipallocator,portallocator}/controller of kube-apiserver.
"""

from __future__ import annotations

import asyncio
import logging

from msgspec import Struct, field

from kapiserver.api.accessors import labels_of, name_of, value_at
from kapiserver.api.errors import APIError
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.allocation.addresses import (
    MANAGER,
    MANAGER_LABEL,
    NotAllocated,
    parent_of,
)
from kapiserver.apiserver.allocation.ports import PortBitmap, PortRange
from kapiserver.apiserver.allocation.services import ServiceAllocation, allocation_of
from kapiserver.apiserver.context import Server
from kapiserver.storage.cache.query import ListQuery
from kapiserver.storage.concurrency.clock import Timer
from kapiserver.storage.errors import StorageError

FIRST_SECONDS = 60.0
INTERVAL_SECONDS = 180.0

_log = logging.getLogger(__name__)


class Leaks(Struct, frozen=True, kw_only=True):
    """Addresses and ports that were allocated, and that no service had."""

    addresses: frozenset[str] = field(default_factory=frozenset)
    ports: frozenset[int] = field(default_factory=frozenset)


class AllocationRepair:
    """The repair loop; call `start` once and `stop` once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._allocation = ServiceAllocation(
            server.config, server.codecs, server.stores, server.offloader
        )
        self._previous = Leaks()
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the loop; it runs first after a minute."""
        self._timer = self._server.clock.call_later(FIRST_SECONDS, self._start_run)

    async def stop(self) -> None:
        """Stop the loop, and wait for a run in progress."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await self._task

    def _start_run(self) -> None:
        self._task = asyncio.create_task(self._run(), name="allocation-repair")

    async def _run(self) -> None:
        try:
            await self.run_once()
        except (StorageError, APIError, OSError) as error:  # OSError: no descriptors to import
            _log.info("the repair of service addresses and ports failed, retrying: %s", error)
        self._timer = self._server.clock.call_later(INTERVAL_SECONDS, self._start_run)

    async def run_once(self) -> None:
        """Repair once. Raises StorageError."""
        stores, offloader = self._server.stores, self._server.offloader
        entries = (await stores.by_name(CORE, "services").list(ListQuery())).entries
        trees = [await offloader.tree(entry) for entry in entries]
        addresses = await self._repair_addresses(trees)
        ports = await self._repair_ports(trees)
        self._previous = Leaks(addresses=addresses, ports=ports)

    async def _repair_addresses(self, services: list[Tree]) -> frozenset[str]:
        service_by_address = {
            address: tree for tree in services for address in allocation_of(tree).addresses
        }
        entries = (await self._allocation.addresses.store.list(ListQuery())).entries
        allocated = {entry.key.name for entry in entries}
        for address in service_by_address.keys() - allocated:
            try:
                await self._allocation.addresses.allocate(
                    address, service_by_address[address], dry_run=False
                )
            except NotAllocated as error:
                name = name_of(service_by_address[address])
                _log.warning(
                    "cannot allocate the address %s of the service %s: %s", address, name, error
                )
        leaked = set()
        for entry in entries:
            tree = entry.tree()
            if labels_of(tree).get(MANAGER_LABEL) != MANAGER:
                continue
            owner = service_by_address.get(entry.key.name)
            if owner is None or parent_of(owner) != value_at(tree, "spec", "parentRef"):
                leaked.add(entry.key.name)
        for address in leaked & self._previous.addresses:
            _log.info("released address %s, which no service has", address)
            await self._allocation.addresses.release(address)
        return frozenset(leaked - self._previous.addresses)

    async def _repair_ports(self, services: list[Tree]) -> frozenset[int]:
        allowed = PortRange.parse(self._server.config.services.service_node_port_range)
        in_use = {port for tree in services for port in allocation_of(tree).ports}
        leaked: set[int] = set()

        def plan(ports: PortBitmap) -> None:
            leaked.clear()
            leaked.update(ports.allocated_ports() - in_use)
            ports.release(leaked & self._previous.ports)
            for port in in_use - ports.allocated_ports():
                if allowed.first <= port <= allowed.last:
                    ports.allocate(port)

        await self._allocation.ports.update(plan)
        return frozenset(leaked - self._previous.ports)
