"""Writes of ResourceClaims: allocation and reservation before a pod is bound, and their end.

What is written counts at once in the inventory, before the informer delivers it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kapiserver.api.accessors import (
    finalizers_of,
    is_terminating,
    metadata_of,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.writing import update_object
from kapiserver.controllers.resource_claims.pod_claims import (
    FINALIZER,
    allocation_of,
    consumer_reference,
    is_reserved_for,
)
from kapiserver.simulation.scheduler.devices.inventory import Inventory
from kapiserver.simulation.scheduler.plugins.dynamic_resources import ClaimToReserve
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError
from kapiserver.storage.objects.lifecycle import timestamp

_PLUGIN = 'running PreBind plugin "DynamicResources"'


class ClaimReservations:
    """Allocates, reserves and frees claims as the scheduler decides."""

    def __init__(self, context: ControllerContext, inventory: Inventory) -> None:
        self._context = context
        self._inventory = inventory

    async def reserve(self, pod: Tree, claims: Sequence[ClaimToReserve]) -> None:
        """Allocate and reserve claims for a pod. Raises SchedulingError if a claim has changed so
        that the decision does not hold, and StatusError."""
        for claim, allocation in claims:
            if allocation is not None:
                await self._update(claim, _with_finalizer)
            await self._update(claim, self._reservation(pod, allocation), subresource="status")

    def _reservation(self, pod: Tree, allocation: Tree | None) -> Callable[[Tree], Tree]:
        now = timestamp(self._context.server.clock.now())

        def change(current: Tree) -> Tree:
            where = f"claim {namespace_of(current)}/{name_of(current)}"
            if is_terminating(current):
                raise SchedulingError(f"{_PLUGIN}: {where} got deleted in the meantime")
            status = current.setdefault("status", {})
            if allocation is not None:
                if allocation_of(current) is not None:
                    raise SchedulingError(
                        f"{_PLUGIN}: {where} got allocated elsewhere in the meantime"
                    )
                status["allocation"] = {**allocation, "allocationTimestamp": now}
            elif allocation_of(current) is None:
                raise SchedulingError(
                    f"{_PLUGIN}: {where} got deallocated elsewhere in the meantime"
                )
            if not is_reserved_for(pod, current):
                consumers = status.get("reservedFor") or []
                status["reservedFor"] = [*consumers, consumer_reference(pod)]
            return current

        return change

    async def release(self, pod: Tree, claims: Sequence[ClaimToReserve]) -> None:
        """Remove the reservations for a pod that was not bound; the allocations stay, so that the
        next attempt uses them. Raises StatusError."""

        def change(current: Tree) -> Tree:
            status = current.get("status") or {}
            status["reservedFor"] = [
                each for each in status.get("reservedFor") or () if each.get("uid") != uid_of(pod)
            ]
            return current

        for claim, _ in claims:
            await self._update(claim, change, subresource="status")

    async def free(self, claim: Tree) -> None:
        """Remove the allocation of a claim that nobody uses. Raises StatusError."""

        def change(current: Tree) -> Tree:
            if value_at(current, "status", "reservedFor") == value_at(
                claim, "status", "reservedFor"
            ):
                for field in ("reservedFor", "allocation", "devices"):
                    (current.get("status") or {}).pop(field, None)
            return current

        await self._update(claim, change, subresource="status")

    async def _update(
        self, claim: Tree, change: Callable[[Tree], Tree], *, subresource: str = ""
    ) -> None:
        claims = self._context.resource(
            "resource.k8s.io/v1", "resourceclaims", namespace=namespace_of(claim)
        )
        current = await update_object(
            claims, name_of(claim), change, subresource=subresource, uid=uid_of(claim)
        )
        if current is not None:
            self._inventory.set_claim(current)


def _with_finalizer(claim: Tree) -> Tree:
    if FINALIZER not in finalizers_of(claim):
        metadata_of(claim)["finalizers"] = [*finalizers_of(claim), FINALIZER]
    return claim
