"""The allocator of node ports: one RangeAllocation object in the store, with a bit for each port.

All ports of a service are allocated or released in one write with optimistic concurrency, so that
several servers never allocate a port twice. Knows no rule about services. Mirrors
pkg/registry/core/service/portallocator of kube-apiserver, whose stored form it shares.
"""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable, Iterable

from msgspec import Struct

from kapiserver.api.core.service_families import node_ports
from kapiserver.api.core.services import WITH_NODE_PORTS, needs_health_check_node_port
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import Config
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.codecs.storage_codec import decode_from_storage, encode_for_storage
from kapiserver.storage.cache.offload import Offloader
from kapiserver.storage.cache.query import ListQuery
from kapiserver.storage.errors import Conflict, KeyExists, Unavailable
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.store_registry import StoreRegistry

KEY = "ranges/servicenodeports"
ATTEMPTS = 100


class PortRange(Struct, frozen=True):
    """Ports from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}-{self.last}"

    @property
    def size(self) -> int:
        """The number of ports."""
        return self.last - self.first + 1

    @classmethod
    def parse(cls, text: str) -> PortRange:
        """Parse `30000-32767`, `30000+10` or `30000`. Raises ValueError."""
        first, minus, last = text.partition("-")
        base, plus, count = text.partition("+")
        if minus:
            ports = cls(int(first), int(last))
        elif plus:
            ports = cls(int(base), int(base) + int(count))
        else:
            ports = cls(int(text), int(text))
        if not 0 < ports.first <= ports.last <= 65535:
            raise ValueError(f"{text} is not a range of ports")
        return ports


class PortNotAllocated(Exception):
    """A port cannot be allocated; the message is kube-apiserver's."""


class PortBitmap:
    """The ports of a range and which of them are allocated, as bits; changed by a plan."""

    def __init__(self, allowed: PortRange, bits: int, rng: random.Random) -> None:
        self.allowed = allowed
        self.bits = bits
        self._random = rng

    def allocate(self, port: int) -> None:
        """Allocate a requested port. Raises PortNotAllocated."""
        if not self.allowed.first <= port <= self.allowed.last:
            raise PortNotAllocated(
                "provided port is not in the valid range. The range of valid ports is "
                f"{self.allowed}"
            )
        bit = 1 << (port - self.allowed.first)
        if self.bits & bit:
            raise PortNotAllocated("provided port is already allocated")
        self.bits |= bit

    def allocate_next(self) -> int:
        """Allocate and return any free port; the lower band, which is meant for requested ports,
        comes last. Raises PortNotAllocated."""
        size = self.allowed.size
        static_count = 0 if size < 16 else min(max(16, size // 32), 128)
        for start, count in ((static_count, size - static_count), (0, static_count)):
            offset = self._random.randrange(count) if count > 0 else 0
            for number in range(count):
                bit = start + (offset + number) % count
                if not self.bits >> bit & 1:
                    self.bits |= 1 << bit
                    return self.allowed.first + bit
        raise PortNotAllocated("range is full")

    def allocated_ports(self) -> set[int]:
        """Return the allocated ports."""
        bits = range(self.allowed.size)
        return {self.allowed.first + bit for bit in bits if self.bits >> bit & 1}

    def release(self, ports: Iterable[int]) -> None:
        """Release ports; those outside of the range are ignored."""
        for port in ports:
            if self.allowed.first <= port <= self.allowed.last:
                self.bits &= ~(1 << (port - self.allowed.first))


class PortAllocator:
    """Allocates and releases node ports in the store."""

    def __init__(
        self, config: Config, codecs: CodecFactory, stores: StoreRegistry, offloader: Offloader
    ) -> None:
        self._codecs = codecs
        self._stores = stores
        self._offloader = offloader
        self._key = f"{config.store.key_root}/{KEY}"
        self._node_port_range = PortRange.parse(config.services.service_node_port_range)
        self._lock = asyncio.Lock()

    async def update(self, plan: Callable[[PortBitmap], None], *, dry_run: bool = False) -> None:
        """Call `plan` with the current bitmap and store the result. The plan is called again if
        another server changed the bitmap meanwhile. Its errors are passed on, and nothing is
        stored. Raises StorageError."""
        async with self._lock:  # plans of this server never conflict with each other
            for _ in range(ATTEMPTS):
                item = (await self._stores.kv.get(self._key)).item
                bits = self._decode(item.value) if item is not None else None
                if bits is None:
                    bits = await self._bits_in_use()
                ports = PortBitmap(self._node_port_range, bits, self._stores.identifiers.rng)
                plan(ports)
                if dry_run or (item is not None and ports.bits == bits):
                    return
                try:
                    await self._write(ports.bits, item.revision if item is not None else None)
                except (KeyExists, Conflict):
                    continue
                return
        raise Unavailable(f"{self._key} changes too often")

    async def _write(self, bits: int, expected: Revision | None) -> None:
        data = bits.to_bytes((bits.bit_length() + 7) // 8, "big")
        tree: Tree = {
            "kind": "RangeAllocation",
            "apiVersion": "v1",
            "metadata": {},
            "range": str(self._node_port_range),
            "data": base64.b64encode(data).decode(),
        }
        value, kv = encode_for_storage(self._codecs, tree), self._stores.kv
        if expected is None:
            await kv.create(self._key, value)
        else:
            await kv.update(self._key, value, expected=expected)

    def _decode(self, value: bytes) -> int | None:
        """Return the bits of the stored object, or None if it is of another range."""
        tree = decode_from_storage(self._codecs, value)
        if tree.get("range") != str(self._node_port_range):
            return None
        return int.from_bytes(base64.b64decode(tree.get("data") or ""), "big")

    async def _bits_in_use(self) -> int:
        """Return the bits of the ports in all services, for when no usable object is stored."""
        services = self._stores.by_name(CORE, "services")
        ports = PortBitmap(self._node_port_range, 0, self._stores.identifiers.rng)
        for entry in (await services.list(ListQuery())).entries:
            for port in ports_of(await self._offloader.tree(entry)):
                if self._node_port_range.first <= port <= self._node_port_range.last:
                    ports.bits |= 1 << (port - self._node_port_range.first)
        return ports.bits


def ports_of(service: Tree) -> set[int]:
    """Return the node ports of a service. Those of a type without node ports, such as ExternalName,
    do not count: they were never allocated."""
    spec = service.get("spec") or {}
    if spec.get("type") not in WITH_NODE_PORTS:
        return set()
    ports = node_ports(spec)
    if needs_health_check_node_port(spec) and spec.get("healthCheckNodePort"):
        ports.add(spec["healthCheckNodePort"])
    return ports
