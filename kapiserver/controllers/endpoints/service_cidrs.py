"""Mark ServiceCIDRs as ready, and remove the finalizer of deleted ones that no address needs.

Mirrors pkg/controller/servicecidrs.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Sequence
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
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.subscriptions import Subscriptions
from kapiserver.controllers.loop.workqueue import WorkQueue
from kapiserver.controllers.loop.writing import update_object
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

NAME = "service-cidr-controller"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
READY = "Kubernetes Service CIDR is ready"
STILL_REFERENCED = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
    "ServiceCIDR"
)
WORKERS = 2
_NETWORKING = GroupVersion("networking.k8s.io", "v1")
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class ServiceCIDRController:
    """The control loop; its queue holds keys of ServiceCIDRs."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._server = server = context.server
        self._subscriptions = Subscriptions(server)
        self._queue: WorkQueue[ObjectKey] = context.work_queue(
            self._reconcile, workers=WORKERS, name=NAME
        )

    async def start(self) -> None:
        """Subscribe to ServiceCIDRs; the first terminating one subscribes to addresses."""
        self._cidrs = self._subscriptions.add(_NETWORKING, "servicecidrs", self._on_cidr)

    async def stop(self) -> None:
        """Stop, and cancel the reconciles in progress."""
        self._subscriptions.cancel()
        await self._queue.stop()

    def _on_cidr(self, change: ObjectChange) -> None:
        if change.new is not None:
            self._queue.add(change.new.key)
            self._add_terminating()  # a new range may contain the addresses of a terminating one

    def _on_address(self, change: ObjectChange) -> None:
        if change.new is None:
            self._add_terminating()

    def _add_terminating(self) -> None:
        for entry in self._cidrs.lister.list():
            if is_terminating(entry.tree()):
                self._queue.add(entry.key)

    async def _reconcile(self, key: ObjectKey) -> None:
        await self._subscriptions.wait_synced()
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
            "lastTransitionTime": timestamp(self._server.clock.now()),
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
        cidrs = self._context.resource(str(_NETWORKING), "servicecidrs")
        await update_object(cidrs, key.name, change, subresource=subresource)

    async def _has_exclusive_addresses(self, cidr: Tree) -> bool:
        """Return whether an address is in this range and in no other, according to the store at
        the time of the call. Raises StorageError."""
        addresses = self._subscriptions.add(_NETWORKING, "ipaddresses", self._on_address)
        await self._subscriptions.wait_synced()
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
