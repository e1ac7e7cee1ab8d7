"""Writes of ResourceClaims: allocation and reservation before a pod is bound, and their end.

A write returns when the informer has delivered it, so that the next decision counts it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kapiserver.api.accessors import (
    annotations_of,
    finalizers_of,
    is_terminating,
    metadata_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.writing import delete_object, update_object
from kapiserver.controllers.resource_claims.pod_claims import (
    FINALIZER,
    RESOURCE,
    allocation_of,
    consumer_reference,
    is_reserved_for,
)
from kapiserver.simulation.scheduler.devices.binding_conditions import (
    DeviceBindingError,
    seconds_to_wait,
)
from kapiserver.simulation.scheduler.devices.extended_resources import EXTENDED
from kapiserver.simulation.scheduler.plugins.dynamic_resources import ClaimToReserve
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Informer
from kapiserver.storage.objects.lifecycle import timestamp

_PLUGIN = 'running PreBind plugin "DynamicResources"'


class ClaimReservations:
    """Allocates, reserves and frees claims as the scheduler decides."""

    def __init__(self, context: ControllerContext, informer: Informer) -> None:
        self._context = context
        self._informer = informer

    async def reserve(self, pod: Tree, claims: Sequence[ClaimToReserve]) -> list[Tree]:
        """Allocate and reserve claims for a pod, and return them. When one cannot be reserved,
        release the others. Raises SchedulingError if a claim has changed so that the decision does
        not hold, and StatusError."""
        reserved: list[Tree] = []
        try:
            for claim, allocation, mappings in claims:
                current = await self._create(claim) if mappings else claim
                reserved.append(current)
                if allocation is not None:
                    await self._update(current, _with_finalizer)
                change = self._reservation(pod, allocation)
                await self._update(current, change, subresource="status")
                if mappings:
                    await self._write_mappings(pod, current, mappings)
        except (SchedulingError, StatusError):
            await self.release(pod, reserved)
            raise
        return reserved

    async def _create(self, claim: Tree) -> Tree:
        return await self._claims_of(claim).create(claim)

    async def _write_mappings(self, pod: Tree, claim: Tree, mappings: Sequence[Tree]) -> None:
        """Write to the status of a pod by which claim it has its extended resources."""
        fields = {"resourceClaimName": name_of(claim), "requestMappings": list(mappings)}

        def change(current: Tree) -> Tree:
            current.setdefault("status", {})["extendedResourceClaimStatus"] = fields
            return current

        pods = self._context.resource("v1", "pods", namespace=namespace_of(pod))
        await update_object(pods, name_of(pod), change, subresource="status", uid=uid_of(pod))

    def _reservation(self, pod: Tree, allocation: Tree | None) -> Callable[[Tree], Tree]:
        now = timestamp(self._context.server.clock.now())

        def change(current: Tree) -> Tree:
            _check_not_deleted(current)
            status = current.setdefault("status", {})
            if allocation is not None:
                if allocation_of(current) is not None:
                    raise _changed(current, "allocated elsewhere")
                status["allocation"] = {**allocation, "allocationTimestamp": now}
            elif allocation_of(current) is None:
                raise _changed(current, "deallocated elsewhere")
            if not is_reserved_for(pod, current):
                consumers = status.get("reservedFor") or []
                status["reservedFor"] = [*consumers, consumer_reference(pod)]
            return current

        return change

    async def release(self, pod: Tree, claims: Sequence[Tree]) -> None:
        """Remove the reservations for a pod that was not bound; the allocations stay, so that the
        next attempt uses them. A claim for extended resources is deleted. Raises StatusError."""

        def change(current: Tree) -> Tree:
            status = current.get("status") or {}
            status["reservedFor"] = [
                consumer
                for consumer in status.get("reservedFor") or ()
                if consumer.get("uid") != uid_of(pod)
            ]
            return current

        for claim in claims:
            if EXTENDED in annotations_of(claim):
                await self._update(claim, _without_finalizer)
                await delete_object(self._claims_of(claim), name_of(claim), uid=uid_of(claim))
            else:
                await self._update(claim, change, subresource="status")

    async def seconds_to_wait(self, pod: Tree, claims: Sequence[Tree]) -> float | None:
        """Return how long a pod waits at most until the binding conditions of its devices are true;
        None if they are. A claim whose device has failed loses its allocation. Raises
        DeviceBindingError then, and StatusError."""
        waits = []
        for claim in claims:
            try:
                waits.append(seconds_to_wait(claim, self._context.server.clock.now()))
            except DeviceBindingError as error:
                consumers = value_at(claim, "status", "reservedFor") or ()
                if all(consumer.get("uid") == uid_of(pod) for consumer in consumers):
                    await self.free(claim)
                raise DeviceBindingError(f"{_PLUGIN}: {error}") from None
        return min((wait for wait in waits if wait is not None), default=None)

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
        claims = self._claims_of(claim)
        current = await update_object(
            claims, name_of(claim), change, subresource=subresource, uid=uid_of(claim)
        )
        if current is not None:
            revision = Revision(int(resource_version_of(current)))
            while not await self._informer.wait_for(revision):
                pass  # a decision without this claim could allocate its devices again

    def _claims_of(self, claim: Tree) -> ResourceClient:
        return self._context.resource(
            str(RESOURCE), "resourceclaims", namespace=namespace_of(claim)
        )


def _check_not_deleted(claim: Tree) -> None:
    if is_terminating(claim):
        raise _changed(claim, "deleted")


def _changed(claim: Tree, change: str) -> SchedulingError:
    where = f"claim {namespace_of(claim)}/{name_of(claim)}"
    return SchedulingError(f"{_PLUGIN}: {where} got {change} in the meantime")


def _with_finalizer(claim: Tree) -> Tree:
    _check_not_deleted(claim)
    if FINALIZER not in finalizers_of(claim):
        metadata_of(claim)["finalizers"] = [*finalizers_of(claim), FINALIZER]
    return claim


def _without_finalizer(claim: Tree) -> Tree:
    metadata_of(claim)["finalizers"] = [
        finalizer for finalizer in finalizers_of(claim) if finalizer != FINALIZER
    ]
    return claim
