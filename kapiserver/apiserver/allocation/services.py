"""What a service takes before it is written, and gives back when it has no more use for it.

Addresses first, then ports, then the service: who dies in between leaves something taken that
nobody has, never the reverse, and `allocation/repair.py` finds it. Mirrors beginCreate, beginUpdate
and afterDelete of pkg/registry/core/service/storage of kube-apiserver.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from kapiserver.api.accessors import name_of
from kapiserver.api.core import v1
from kapiserver.api.core.service_families import (
    EXTERNAL_NAME,
    HEADLESS,
    WITH_NODE_PORTS,
    Families,
    canonical_ip,
    default_ip_families,
    is_headless,
    normalize_cluster_ips,
    patch_allocated_values,
)
from kapiserver.api.core.validation.services import needs_health_check_node_port
from kapiserver.api.errors import InvalidObject, Path, invalid
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.types import Tree
from kapiserver.apiserver.allocation.addresses import Addresses, NotAllocated, service_ranges
from kapiserver.apiserver.allocation.ports import NodePorts, PortNotAllocated, Ports, ports_of
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.errors import InternalError
from kapiserver.codecs.codec_factory import CodecFactory
from kapiserver.storage.errors import StorageError, Unavailable
from kapiserver.storage.store_registry import StoreRegistry

_SPEC = Path("spec")
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Held:
    """Addresses and ports."""

    addresses: list[str] = field(default_factory=list)
    ports: set[int] = field(default_factory=set)


class ServiceAllocation:
    """Hands out what services hold."""

    def __init__(self, config: Config, codecs: CodecFactory, stores: StoreRegistry) -> None:
        self.addresses = Addresses(config, stores)
        self.ports = NodePorts(config, codecs, stores)
        ranges = service_ranges(config.service_cluster_ip_range)
        self._families = Families(names=tuple(f"IPv{one.version}" for one in ranges))

    @asynccontextmanager
    async def reserve(
        self, new: Tree | None, old: Tree | None, dry_run: bool
    ) -> AsyncIterator[None]:
        """As `storage/query.py` has Reserve. Raises InvalidObject, InternalError."""
        if new is None:
            yield
            if not dry_run:
                await self._give_back(held_by(old or {}))
            return
        taken, left = Held(), Held()
        try:
            await self._prepare(new, old, taken, left, dry_run=dry_run)
            yield
        except Unavailable:
            raise  # perhaps it was written
        except Exception:
            if not dry_run:
                await self._give_back(taken)
            raise
        if not dry_run:
            await self._give_back(left)

    async def _prepare(
        self, new: Tree, old: Tree | None, taken: Held, left: Held, *, dry_run: bool
    ) -> None:
        spec, before = new.setdefault("spec", {}), (old or {}).get("spec") or {}
        if old is not None:
            patch_allocated_values(spec, before)
        normalize_cluster_ips(spec, before)
        same = ("ipFamilyPolicy", "ipFamilies", "clusterIPs")
        unchanged = before.get("ipFamilyPolicy") == "PreferDualStack" and all(
            spec.get(name) == before.get(name) for name in same
        )
        default_ip_families(new, old, self._families)
        if not unchanged or spec.get("type") == EXTERNAL_NAME:
            await self._take_addresses(new, before, taken, left, dry_run=dry_run)
        await self._take_ports(new, old, taken, left, dry_run=dry_run)
        reorder_keys(spec, v1.ServiceSpec)

    # Addresses.

    async def _take_addresses(
        self, new: Tree, before: Tree, taken: Held, left: Held, *, dry_run: bool
    ) -> None:
        spec = new["spec"]
        had: Sequence[str] = before.get("clusterIPs") or ()
        if spec.get("type") == EXTERNAL_NAME:
            left.addresses.extend(one for one in had if one != HEADLESS)
            return
        if is_headless(spec) or had[:1] == [HEADLESS]:
            return
        families: Sequence[str] = spec.get("ipFamilies") or ()
        fresh = not before or before.get("type") == EXTERNAL_NAME
        known = 0 if fresh else len(before.get("ipFamilies") or had)
        if len(families) < known:
            left.addresses.extend(had[len(families) :])
            return
        addresses: list[str] = list(spec.get("clusterIPs") or ())
        if known < len(families):
            addresses.extend("" for _ in families[len(addresses) :])
            for index in range(known, len(families)):
                found = await self._take(new, addresses, index, families[index], dry_run=dry_run)
                addresses[index] = found
                taken.addresses.append(canonical_ip(found))
            spec["clusterIPs"] = addresses
            spec["clusterIP"] = addresses[0]

    async def _take(
        self, new: Tree, addresses: Sequence[str], index: int, family: str, *, dry_run: bool
    ) -> str:
        wanted = addresses[index]
        try:
            if not wanted:
                return await self.addresses.take_next(family, new, dry_run=dry_run)
            await self.addresses.take(wanted, new, dry_run=dry_run)
        except NotAllocated as error:
            if not wanted:
                raise InternalError(f"failed to allocate a serviceIP: {error}") from None
            detail = f"failed to allocate IP {wanted}: {error}"
            raise _refused(new, _SPEC / "clusterIPs", list(addresses), detail) from None
        return wanted

    # Ports.

    async def _take_ports(
        self, new: Tree, old: Tree | None, taken: Held, left: Held, *, dry_run: bool
    ) -> None:
        spec = new["spec"]
        had = ports_of(old) if old is not None else set()
        wants = spec.get("type") in WITH_NODE_PORTS
        if not wants:
            left.ports |= had  # validation refuses those that are still named
            return
        given = [port.get("nodePort") or 0 for port in spec.get("ports") or ()]
        health = spec.get("healthCheckNodePort") or 0

        def plan(ports: Ports) -> None:
            # Begins from what the client said each time it is called.
            for port, number in zip(spec.get("ports") or (), given, strict=True):
                port["nodePort"] = number
            spec["healthCheckNodePort"] = health
            taken.ports.clear()
            _plan_node_ports(new, had, ports, taken)
            _plan_health_port(new, had, ports, taken)

        try:
            if any(_needs(spec, given, had)) or needs_health_check_node_port(spec):
                await self.ports.change(plan, dry_run=dry_run)
        except (InvalidObject, InternalError):
            taken.ports.clear()  # planned, never written
            raise
        finally:
            for port in spec.get("ports") or ():
                if not port.get("nodePort"):
                    port.pop("nodePort", None)
                reorder_keys(port, v1.ServicePort)
            if not spec.get("healthCheckNodePort"):
                spec.pop("healthCheckNodePort", None)
        left.ports |= had - ports_of(new)

    async def _give_back(self, held: Held) -> None:
        """Release; what cannot be released now stays taken until it is repaired."""
        try:
            for address in held.addresses:
                await self.addresses.give_back(address)
            if held.ports:
                await self.ports.change(lambda ports: ports.give_back(held.ports))
        except StorageError as error:
            _log.warning("not released: %s %s: %s", held.addresses, sorted(held.ports), error)


def held_by(service: Tree) -> Held:
    """All that a service has."""
    spec = service.get("spec") or {}
    addresses = spec.get("clusterIPs") or ([spec["clusterIP"]] if spec.get("clusterIP") else [])
    if spec.get("type") == EXTERNAL_NAME:
        addresses = []
    return Held([canonical_ip(one) for one in addresses if one != HEADLESS], ports_of(service))


def _needs(spec: Tree, given: Sequence[int], had: set[int]) -> Sequence[bool]:
    fills = _fills(spec)
    return [number not in had if number else fills for number in given]


def _fills(spec: Tree) -> bool:
    """Whether ports without a node port get one."""
    return spec.get("type") == "NodePort" or spec.get("allocateLoadBalancerNodePorts") is not False


def _plan_node_ports(new: Tree, had: set[int], ports: Ports, taken: Held) -> None:
    spec, fills = new["spec"], _fills(new["spec"])
    of_port: dict[int, int] = {}  # one number for one port in several protocols
    asked = {
        port["port"]: port["nodePort"]
        for port in reversed(spec.get("ports") or ())
        if port.get("nodePort") and port.get("port")
    }
    for index, port in enumerate(spec.get("ports") or ()):
        number = port.get("nodePort") or 0
        if not number and not fills:
            continue
        if not number and not had:
            number = of_port.get(port.get("port") or 0) or asked.get(port.get("port") or 0) or 0
        if not number:
            number = _next_port(ports)
        elif number not in had and number not in taken.ports:
            try:
                ports.take(number)
            except PortNotAllocated as error:
                at = (_SPEC / "ports")[index] / "nodePort"
                raise _refused(new, at, number, str(error)) from None
        if number not in had:
            taken.ports.add(number)
        port["nodePort"] = number
        of_port.setdefault(port.get("port") or 0, number)


def _next_port(ports: Ports) -> int:
    try:
        return ports.take_next()
    except PortNotAllocated as error:
        raise InternalError(f"failed to allocate a nodePort: {error}") from None


def _plan_health_port(new: Tree, had: set[int], ports: Ports, taken: Held) -> None:
    spec = new["spec"]
    number = spec.get("healthCheckNodePort") or 0
    if not needs_health_check_node_port(spec) or number in had:
        return
    try:
        if number:
            ports.take(number)
        else:
            number = spec["healthCheckNodePort"] = ports.take_next()
    except PortNotAllocated as error:
        which = "requested HealthCheck NodePort" if number else "a HealthCheck NodePort"
        raise InternalError(f"failed to allocate {which} {number}: {error}") from None
    taken.ports.add(number)


def _refused(service: Tree, path: Path, value: object, detail: str) -> InvalidObject:
    errors = [invalid(path, value, detail)]
    return InvalidObject(group="", kind="Service", name=name_of(service), errors=errors)
