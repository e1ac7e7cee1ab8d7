"""Writes of claims and volumes before a pod is bound: which volume a claim gets, or on which node
one is provisioned.

The binder and the provisioner complete the binding. What is written counts at once in the snapshot,
before the informer delivers it.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.accessors import annotations_of, namespace_of
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.volumes.annotations import SELECTED_NODE
from kapiserver.controllers.volumes.claim_plan import reserved_volume, with_annotations
from kapiserver.simulation.scheduler.plugins.volume_binding import ClaimToBind
from kapiserver.simulation.scheduler.snapshot import Snapshot


class VolumeReservations:
    """Reserves volumes for claims, and selects nodes for those that are provisioned."""

    def __init__(self, context: ControllerContext, snapshot: Snapshot) -> None:
        self._context = context
        self._snapshot = snapshot

    async def reserve(self, node: str, claims: Sequence[ClaimToBind]) -> None:
        """Write the decisions about the claims of a pod that gets a node. Raises StatusError, a
        Conflict if a claim or volume has changed since the decision."""
        for claim, volume in claims:
            if volume is not None:
                await self._reserve(volume, claim)
            elif SELECTED_NODE not in annotations_of(claim):
                await self._select(claim, node)

    async def _reserve(self, volume: Tree, claim: Tree) -> None:
        reserved = reserved_volume(volume, claim)
        if reserved != volume:
            volumes = self._context.resource("v1", "persistentvolumes")
            self._snapshot.set_volume(await volumes.update(reserved))

    async def _select(self, claim: Tree, node: str) -> None:
        namespace = namespace_of(claim)
        claims = self._context.resource("v1", "persistentvolumeclaims", namespace=namespace)
        selected = with_annotations(claim, {SELECTED_NODE: node})
        self._snapshot.set_claim(await claims.update(selected))
