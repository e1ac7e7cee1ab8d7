"""Makes ServiceCIDRs ready, and lets go of those that no address needs any more.

Mirrors pkg/controller/servicecidrs.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Sequence
from typing import TypeAlias

from kapiserver.api.group import GroupVersion
from kapiserver.api.objects import (
    finalizers_of,
    has_condition,
    is_terminating,
    metadata_of,
    name_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.controllers.workqueue import Work
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.lifecycle import timestamp
from kapiserver.storage.metadata_informer import Seen
from kapiserver.storage.query import ListQuery

NAME = "service-cidr-controller"
FINALIZER = "networking.k8s.io/service-cidr-finalizer"
READY = "Kubernetes Service CIDR is ready"
HELD = (
    "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new "
    "ServiceCIDR"
)
WORKERS = 2
_NETWORKING = GroupVersion("networking.k8s.io", "v1")
_Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network


class ServiceCIDRs:
    """The loop: a reader of the feed, and workers while a range wants looking at."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._leaving: set[ObjectKey] = set()
        self._work: Work[ObjectKey] = Work(self._look, server.clock, workers=WORKERS, name=NAME)

    async def stop(self) -> None:
        """End; what is being looked at is broken off."""
        await self._work.stop()

    def begin(self) -> None:
        """Forget everything."""
        self._work.clear()
        self._leaving.clear()

    def put(self, seen: Seen) -> None:
        """An object is there, or changed."""
        if seen.resource.qualified_name == "servicecidrs.networking.k8s.io":
            if seen.terminating:
                self._leaving.add(seen.key)
            self._work.put(seen.key)
            self._again()  # a new range may hold the addresses of one that leaves

    def gone(self, seen: Seen) -> None:
        """An object is there no more: perhaps it was the last address of a range."""
        self._leaving.discard(seen.key)
        if seen.resource.qualified_name == "ipaddresses.networking.k8s.io":
            self._again()

    def _again(self) -> None:
        for key in self._leaving:
            self._work.put(key)

    async def _look(self, key: ObjectKey) -> None:
        store = self._server.stores.named(_NETWORKING, "servicecidrs")
        with contextlib.suppress(NotFound):
            found = (await store.get(key)).tree()
            if not is_terminating(found):
                if FINALIZER not in finalizers_of(found):
                    await store.update(key, _protected)
                await self._say(key, found, status="True", reason="", message=READY)
            elif FINALIZER in finalizers_of(found):
                if await self._is_used(found):
                    await self._say(key, found, status="False", reason="Terminating", message=HELD)
                else:
                    await store.update(key, _released)

    async def _say(
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

        store = self._server.stores.named(_NETWORKING, "servicecidrs")
        await store.update(key, change, subresource="status")

    async def _is_used(self, cidr: Tree) -> bool:
        """Whether an address is in this range and in no other."""
        ranges = await self._server.stores.named(_NETWORKING, "servicecidrs").list(ListQuery())
        others: list[_Network] = []
        for entry in ranges.entries:
            one = entry.tree()
            if name_of(one) != name_of(cidr) and not is_terminating(one):
                others.extend(_networks(one))
        own = _networks(cidr)
        listed = await self._server.stores.named(_NETWORKING, "ipaddresses").list(ListQuery())
        for entry in listed.entries:
            address = ipaddress.ip_address(entry.key.name)
            if _holds(own, address) and not _holds(others, address):
                return True
        return False


def _networks(cidr: Tree) -> list[_Network]:
    texts = value_at(cidr, "spec", "cidrs") or ()
    return [ipaddress.ip_network(text, strict=False) for text in texts]


def _holds(
    networks: Sequence[_Network], address: ipaddress.IPv4Address | ipaddress.IPv6Address
) -> bool:
    return any(address in network for network in networks)


def _protected(cidr: Tree | None) -> Tree:
    assert cidr is not None
    if not is_terminating(cidr) and FINALIZER not in finalizers_of(cidr):
        metadata_of(cidr)["finalizers"] = [*finalizers_of(cidr), FINALIZER]
    return cidr


def _released(cidr: Tree | None) -> Tree:
    assert cidr is not None
    left = [one for one in finalizers_of(cidr) if one != FINALIZER]
    if left:
        metadata_of(cidr)["finalizers"] = left
    else:
        metadata_of(cidr).pop("finalizers", None)
    return cidr
