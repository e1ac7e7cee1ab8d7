"""Mark ServiceCIDRs as ready, and remove the finalizer of deleted ones that no address needs.

Mirrors pkg/controller/servicecidrs.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Sequence
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
from kapiserver.controllers.context import ControllerContext
from kapiserver.controllers.workqueue import WorkQueue
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.lifecycle import timestamp
from kapiserver.storage.metadata_informer import ObjectMetadata
from kapiserver.storage.query import ListQuery

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
        self._server = server = context.server
        self._metadata = context.metadata
        self._terminating: set[ObjectKey] = set()
        self._queue: WorkQueue[ObjectKey] = WorkQueue(
            self._reconcile, server.clock, workers=WORKERS, name=NAME
        )

    async def start(self) -> None:
        """Subscribe to the metadata of all objects."""
        self._metadata.subscribe(self)

    async def stop(self) -> None:
        """End, cancelling reconciles in progress."""
        await self._queue.stop()

    def on_reset(self) -> None:
        """Forget everything: all present objects follow."""
        self._queue.clear()
        self._terminating.clear()

    def on_upsert(self, seen: ObjectMetadata) -> None:
        """An object was created or changed."""
        if seen.resource.qualified_name == "servicecidrs.networking.k8s.io":
            if seen.terminating:
                self._terminating.add(seen.key)
            self._queue.add(seen.key)
            self._add_terminating()  # a new range may contain the addresses of a terminating one

    def on_delete(self, seen: ObjectMetadata) -> None:
        """An object was deleted, perhaps the last address of a terminating range."""
        self._terminating.discard(seen.key)
        if seen.resource.qualified_name == "ipaddresses.networking.k8s.io":
            self._add_terminating()

    def _add_terminating(self) -> None:
        for key in self._terminating:
            self._queue.add(key)

    async def _reconcile(self, key: ObjectKey) -> None:
        store = self._server.stores.by_name(_NETWORKING, "servicecidrs")
        with contextlib.suppress(NotFound):
            found = (await store.get(key)).tree()
            if not is_terminating(found):
                if FINALIZER not in finalizers_of(found):
                    await store.update(key, _with_finalizer)
                await self._set_ready_condition(key, found, status="True", reason="", message=READY)
            elif FINALIZER in finalizers_of(found):
                if await self._has_exclusive_addresses(found):
                    await self._set_ready_condition(
                        key, found, status="False", reason="Terminating", message=STILL_REFERENCED
                    )
                else:
                    await store.update(key, _without_finalizer)

    async def _set_ready_condition(
        self, key: ObjectKey, found: Tree, *, status: str, reason: str, message: str
    ) -> None:
        if has_condition(found, "Ready", status):
            return
        condition = {
            "type": "Ready",
            "status": status,
            "lastTransitionTime": timestamp(self._server.clock.now()),
            "reason": reason,
            "message": message,
        }

        def change(current: Tree | None) -> Tree:
            assert current is not None
            kept = value_at(current, "status", "conditions") or ()
            others = [one for one in kept if one.get("type") != "Ready"]
            return current | {"status": {"conditions": [*others, condition]}}

        store = self._server.stores.by_name(_NETWORKING, "servicecidrs")
        await store.update(key, change, subresource="status")

    async def _has_exclusive_addresses(self, cidr: Tree) -> bool:
        """Return whether an address is in this range and in no other."""
        ranges = await self._server.stores.by_name(_NETWORKING, "servicecidrs").list(ListQuery())
        others: list[_Network] = []
        for entry in ranges.entries:
            one = entry.tree()
            if name_of(one) != name_of(cidr) and not is_terminating(one):
                others.extend(_networks(one))
        own = _networks(cidr)
        listed = await self._server.stores.by_name(_NETWORKING, "ipaddresses").list(ListQuery())
        for entry in listed.entries:
            address = ipaddress.ip_address(entry.key.name)
            if _contains(own, address) and not _contains(others, address):
                return True
        return False


def _networks(cidr: Tree) -> list[_Network]:
    texts = value_at(cidr, "spec", "cidrs") or ()
    return [ipaddress.ip_network(text, strict=False) for text in texts]


def _contains(
    networks: Sequence[_Network], address: ipaddress.IPv4Address | ipaddress.IPv6Address
) -> bool:
    return any(address in network for network in networks)


def _with_finalizer(cidr: Tree | None) -> Tree:
    assert cidr is not None
    if not is_terminating(cidr) and FINALIZER not in finalizers_of(cidr):
        metadata_of(cidr)["finalizers"] = [*finalizers_of(cidr), FINALIZER]
    return cidr


def _without_finalizer(cidr: Tree | None) -> Tree:
    assert cidr is not None
    left = [one for one in finalizers_of(cidr) if one != FINALIZER]
    if left:
        metadata_of(cidr)["finalizers"] = left
    else:
        metadata_of(cidr).pop("finalizers", None)
    return cidr
