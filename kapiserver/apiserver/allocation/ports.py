"""The ports that services have on every node: one RangeAllocation in the store, a bit each.

All ports of a service are taken and given back in one write, which holds only for the state it was
planned on: no two servers give one port away. Knows no rule about services. Mirrors
pkg/registry/core/service/portallocator of kube-apiserver, whose stored form it shares.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kapiserver.api.core.service_families import WITH_NODE_PORTS, node_ports
from kapiserver.api.core.validation.services import needs_health_check_node_port
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.storage_codec import decode_from_storage, encode_for_storage
from kapiserver.storage.errors import Conflict, KeyExists, Unavailable
from kapiserver.storage.kv import Revision
from kapiserver.storage.query import ListQuery
from kapiserver.storage.store_registry import StoreRegistry

KEY = "ranges/servicenodeports"
ATTEMPTS = 100


@dataclass(frozen=True, slots=True)
class PortRange:
    """Ports from the first to the last, both among them."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @property
    def size(self) -> int:
        """How many they are."""
        return self.last - self.first + 1

    @classmethod
    def parse(cls, text: str) -> PortRange:
        """Read `30000-32767` or `30000+10`. Raises ValueError."""
        first, minus, last = text.partition("-")
        begin, plus, more = text.partition("+")
        if minus:
            found = cls(int(first), int(last))
        elif plus:
            found = cls(int(begin), int(begin) + int(more))
        else:
            found = cls(int(text), int(text))
        if not 0 < found.first <= found.last <= 65535:
            raise ValueError(f"{text} is no range of ports")
        return found


class PortNotAllocated(Exception):
    """No such port to be had; the message is kube-apiserver's."""


class Ports:
    """The ports of a range, some of them taken: what a plan works on."""

    def __init__(self, allowed: PortRange, taken: int, chance: random.Random) -> None:
        self.allowed = allowed
        self.taken = taken
        self._random = chance

    def take(self, port: int) -> None:
        """Take one that was asked for. Raises PortNotAllocated."""
        if not self.allowed.first <= port <= self.allowed.last:
            raise PortNotAllocated(
                "provided port is not in the valid range. The range of valid ports is "
                f"{self.allowed}"
            )
        bit = 1 << (port - self.allowed.first)
        if self.taken & bit:
            raise PortNotAllocated("provided port is already allocated")
        self.taken |= bit

    def take_next(self) -> int:
        """Take any, those above the band that is best for static ones first. Raises
        PortNotAllocated."""
        size = self.allowed.size
        band = 0 if size < 16 else min(max(16, size // 32), 128)
        for start, count in ((band, size - band), (0, band)):
            offset = self._random.randrange(count) if count > 0 else 0
            for number in range(count):
                at = start + (offset + number) % count
                if not self.taken >> at & 1:
                    self.taken |= 1 << at
                    return self.allowed.first + at
        raise PortNotAllocated("range is full")

    def all(self) -> set[int]:
        """Those that are taken."""
        bits = range(self.allowed.size)
        return {self.allowed.first + bit for bit in bits if self.taken >> bit & 1}

    def give_back(self, ports: Iterable[int]) -> None:
        """Release some; those that are outside of the range were never taken."""
        for port in ports:
            if self.allowed.first <= port <= self.allowed.last:
                self.taken &= ~(1 << (port - self.allowed.first))


class NodePorts:
    """The ports of the store."""

    def __init__(self, config: Config, codecs: CodecFactory, stores: StoreRegistry) -> None:
        self._codecs = codecs
        self._stores = stores
        self._key = f"{config.key_root}/{KEY}"
        self._allowed = PortRange.parse(config.service_node_port_range)
        self._random = random.Random()
        self._turn = asyncio.Lock()

    async def change(self, plan: Callable[[Ports], None], *, dry_run: bool = False) -> None:
        """Carry out a plan. It is called again when the state it saw is not the newest any more;
        what it raises goes through, and nothing is changed. Raises StorageError."""
        async with self._turn:  # of one server's plans none is made in vain
            for _ in range(ATTEMPTS):
                item = (await self._stores.kv.get(self._key)).item
                taken = self._read(item.value) if item is not None else None
                if taken is None:
                    taken = await self._held()
                ports = Ports(self._allowed, taken, self._random)
                plan(ports)
                if dry_run or (item is not None and ports.taken == taken):
                    return
                try:
                    await self._write(ports.taken, item.revision if item is not None else None)
                except (KeyExists, Conflict):
                    continue
                return
        raise Unavailable(f"{self._key} changes too often")

    async def _write(self, taken: int, expected: Revision | None) -> None:
        data = taken.to_bytes((taken.bit_length() + 7) // 8, "big")
        tree: Tree = {
            "kind": "RangeAllocation",
            "apiVersion": "v1",
            "metadata": {},
            "range": str(self._allowed),
            "data": base64.b64encode(data).decode(),
        }
        value, kv = encode_for_storage(self._codecs, tree), self._stores.kv
        if expected is None:
            await kv.create(self._key, value)
        else:
            await kv.update(self._key, value, expected=expected)

    def _read(self, value: bytes) -> int | None:
        """The bits; None where they are of another range."""
        tree = decode_from_storage(self._codecs, value)
        if tree.get("range") != str(self._allowed):
            return None
        return int.from_bytes(base64.b64decode(tree.get("data") or ""), "big")

    async def _held(self) -> int:
        """The bits of what services have: where there is no record, or one of another range."""
        services = self._stores.by_name(CORE, "services")
        ports = Ports(self._allowed, 0, self._random)
        for entry in (await services.list(ListQuery())).entries:
            for port in ports_of(entry.tree()):
                if self._allowed.first <= port <= self._allowed.last:
                    ports.taken |= 1 << (port - self._allowed.first)
        return ports.taken


def ports_of(service: Tree) -> set[int]:
    """All ports that a service has on nodes. Numbers where there are no such ports, as an
    ExternalName may name some, were never taken for it or are about to be dropped."""
    spec = service.get("spec") or {}
    if spec.get("type") not in WITH_NODE_PORTS:
        return set()
    found = node_ports(spec)
    if needs_health_check_node_port(spec) and spec.get("healthCheckNodePort"):
        found.add(spec["healthCheckNodePort"])
    return found
