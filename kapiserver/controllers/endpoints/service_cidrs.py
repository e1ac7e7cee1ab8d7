"""Mark ServiceCIDRs as ready, and remove the finalizer of deleted ones that no address needs.

Mirrors pkg/controller/servicecidrs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from kapiserver.api.accessors import (
    finalizers_of,
    has_condition,
    is_terminating,
    metadata_of,
    name_of,
    value_at,
)
from kapiserver.api.group import GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

FINALIZER = "networking.k8s.io/service-cidr-finalizer"
READY = "Kubernetes Service CIDR is ready"
STILL_REFERENCED = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
    "ServiceCIDR"
)
_NETWORKING = GroupVersion("networking.k8s.io", "v1")
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class ServiceCIDRController(Controller[ObjectKey]):
    """The control loop; its queue holds keys of ServiceCIDRs."""

    workers = 2

    def set_up(self) -> None:
        """Watch ServiceCIDRs; the first terminating one watches addresses."""
        self._cidrs = self.watch(_NETWORKING, "servicecidrs", self._for_cidr)

    def _for_cidr(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Return a range that changed, and the terminating ones, whose addresses it may contain."""
        return (change.new.key, *self._terminating()) if change.new is not None else ()

    def _for_address(self, change: ObjectChange) -> Iterable[ObjectKey]:
        return self._terminating() if change.new is None else ()

    def _terminating(self) -> Iterator[ObjectKey]:
        return (entry.key for entry in self._cidrs.lister.list() if is_terminating(entry.tree()))

    async def reconcile(self, key: ObjectKey) -> None:
        """Mark a range as ready, or remove the finalizer of a deleted one."""
        entry = self._cidrs.lister.get(key)
        if entry is None:
            return
        cidr = entry.tree()
        if not is_terminating(cidr):
            if FINALIZER not in finalizers_of(cidr):
                await self._update(key, _with_finalizer)
            await self._set_ready_condition(key, status="True", reason="", message=READY)
        elif FINALIZER in finalizers_of(cidr):
            if await self._has_exclusive_addresses(cidr):
                await self._set_ready_condition(
                    key, status="False", reason="Terminating", message=STILL_REFERENCED
                )
            else:
                await self._update(key, _without_finalizer)

    async def _set_ready_condition(
        self, key: ObjectKey, *, status: str, reason: str, message: str
    ) -> None:
        condition = {
            "type": "Ready",
            "status": status,
            "lastTransitionTime": timestamp(self.clock.now()),
            "reason": reason,
            "message": message,
        }

        def change(current: Tree) -> Tree:
            if has_condition(current, "Ready", status):
                return current
            conditions = value_at(current, "status", "conditions") or ()
            other_conditions = [item for item in conditions if item.get("type") != "Ready"]
            return current | {"status": {"conditions": [*other_conditions, condition]}}

        await self._update(key, change, subresource="status")

    async def _update(
        self, key: ObjectKey, change: Callable[[Tree], Tree], *, subresource: str = ""
    ) -> None:
        cidrs = self.context.resource(str(_NETWORKING), "servicecidrs")
        await update_object(cidrs, key.name, change, subresource=subresource)

    async def _has_exclusive_addresses(self, cidr: Tree) -> bool:
        """Return whether an address is in this range and in no other, according to the store at
        the time of the call. Raises StorageError."""
        addresses = self.watch(_NETWORKING, "ipaddresses", self._for_address)
        await self.wait_synced()
        await self._cidrs.fresh()
        await addresses.fresh()
        other_networks: list[_Network] = []
        for entry in self._cidrs.lister.list():
            other_cidr = entry.tree()
            if name_of(other_cidr) != name_of(cidr) and not is_terminating(other_cidr):
                other_networks.extend(_networks(other_cidr))
        networks = _networks(cidr)
        for entry in addresses.lister.list():
            address = ipaddress.ip_address(entry.key.name)
            if _contains(networks, address) and not _contains(other_networks, address):
                return True
        return False


def _networks(cidr: Tree) -> list[_Network]:
    cidrs = value_at(cidr, "spec", "cidrs") or ()
    return [ipaddress.ip_network(text, strict=False) for text in cidrs]


def _contains(
    networks: Sequence[_Network], address: ipaddress.IPv4Address | ipaddress.IPv6Address
) -> bool:
    return any(address in network for network in networks)


def _with_finalizer(cidr: Tree) -> Tree:
    if not is_terminating(cidr) and FINALIZER not in finalizers_of(cidr):
        metadata_of(cidr)["finalizers"] = [*finalizers_of(cidr), FINALIZER]
    return cidr


def _without_finalizer(cidr: Tree) -> Tree:
    remaining_finalizers = [item for item in finalizers_of(cidr) if item != FINALIZER]
    if remaining_finalizers:
        metadata_of(cidr)["finalizers"] = remaining_finalizers
    else:
        metadata_of(cidr).pop("finalizers", None)
    return cidr
