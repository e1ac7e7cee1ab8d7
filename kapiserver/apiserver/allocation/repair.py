"""Finds addresses and ports that are taken and that no service has, and gives them back; takes
those that a service has and that are not taken.

Something may be taken while a service that will have it is being written, here or by another
server: only what nobody had at two looks, a minute apart, is given back. Mirrors
pkg/registry/core/service/{ipallocator,portallocator}/controller of kube-apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

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
from kapiserver.apiserver.allocation.ports import PortRange, Ports
from kapiserver.apiserver.allocation.services import ServiceAllocation, held_by
from kapiserver.apiserver.context import Server
from kapiserver.storage.clock import Timer
from kapiserver.storage.errors import StorageError
from kapiserver.storage.query import ListQuery

FIRST_SECONDS = 60.0
SECONDS = 180.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaked:
    """What was taken and nobody had."""

    addresses: frozenset[str] = field(default_factory=frozenset)
    ports: frozenset[int] = field(default_factory=frozenset)


class Repair:
    """The loop; `start` it once, `stop` it once."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._allocation = ServiceAllocation(server.config, server.codecs, server.stores)
        self._seen = Leaked()
        self._timer: Timer | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look in a minute."""
        self._timer = self._server.clock.call_later(FIRST_SECONDS, self._begin)

    async def stop(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            await self._task

    def _begin(self) -> None:
        self._task = asyncio.create_task(self._turn(), name="allocation-repair")

    async def _turn(self) -> None:
        try:
            await self.look()
        except (StorageError, APIError) as error:
            _log.info("addresses and ports were not looked at: %s", error)
        self._timer = self._server.clock.call_later(SECONDS, self._begin)

    async def look(self) -> None:
        """Look once. Raises StorageError."""
        services = self._server.stores.by_name(CORE, "services")
        trees = [entry.tree() for entry in (await services.list(ListQuery())).entries]
        addresses = await self._addresses(trees)
        ports = await self._ports(trees)
        self._seen = Leaked(addresses=addresses, ports=ports)

    async def _addresses(self, services: list[Tree]) -> frozenset[str]:
        wanted = {address: tree for tree in services for address in held_by(tree).addresses}
        listed = (await self._allocation.addresses.store.list(ListQuery())).entries
        taken = {entry.key.name for entry in listed}
        for address in wanted.keys() - taken:
            try:
                await self._allocation.addresses.take(address, wanted[address], dry_run=False)
            except NotAllocated as error:
                name = name_of(wanted[address])
                _log.warning("address %s of service %s: %s", address, name, error)
        leaked = set()
        for entry in listed:
            tree = entry.tree()
            if labels_of(tree).get(MANAGER_LABEL) != MANAGER:
                continue
            owner = wanted.get(entry.key.name)
            if owner is None or parent_of(owner) != value_at(tree, "spec", "parentRef"):
                leaked.add(entry.key.name)
        for address in leaked & self._seen.addresses:
            _log.info("address %s is nobody's: given back", address)
            await self._allocation.addresses.give_back(address)
        return frozenset(leaked - self._seen.addresses)

    async def _ports(self, services: list[Tree]) -> frozenset[int]:
        allowed = PortRange.parse(self._server.config.service_node_port_range)
        held = {port for tree in services for port in held_by(tree).ports}
        leaked: set[int] = set()

        def plan(ports: Ports) -> None:
            leaked.clear()
            leaked.update(ports.all() - held)
            ports.give_back(leaked & self._seen.ports)
            for port in held - ports.all():
                if allowed.first <= port <= allowed.last:
                    ports.take(port)

        await self._allocation.ports.change(plan)
        return frozenset(leaked - self._seen.ports)
