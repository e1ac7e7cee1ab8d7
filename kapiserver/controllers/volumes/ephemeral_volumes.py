"""Makes the claims of generic ephemeral volumes, which belong to their pod and go with it.

Mirrors pkg/controller/volume/ephemeral.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import (
    controller_of,
    is_terminating,
    name_of,
    namespace_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.workloads.claims import controller_reference
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange


class EphemeralVolumeController(Controller[ObjectKey]):
    """Makes the claims of the ephemeral volumes of pods."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, "ephemeral_volume")

    def set_up(self) -> None:
        """Watch pods and claims."""
        self._pods_by_claim = Index(_ephemeral_claims)
        self._pods = self.watch(CORE, "pods", self._on_pod, self._pods_by_claim)
        self._claims = self.watch(CORE, "persistentvolumeclaims", self._on_claim)

    def _on_pod(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue a new pod; the volumes of a pod never change."""
        if change.old is None and change.new is not None and ephemeral_volumes(change.new.tree()):
            yield change.new.key

    def _on_claim(self, change: ObjectChange) -> Iterator[ObjectKey]:
        """Queue the pod of a claim that somebody has deleted."""
        if change.new is None:
            key = change.last.key
            for pod in self._pods_by_claim.get(f"{key.namespace}/{key.name}"):
                yield pod.key

    async def reconcile(self, key: ObjectKey) -> None:
        """Make the missing claims of a pod."""
        entry = self._pods.lister.get(key)
        if entry is None or is_terminating(entry.tree()):
            return
        pod = entry.tree()
        for volume in ephemeral_volumes(pod):
            try:
                await self._make_claim(pod, volume)
            except ValueError as error:
                message = f"ephemeral volume {volume['name']}: {error}"
                await self._events.warn(pod, "FailedBinding", message)
                raise

    async def _make_claim(self, pod: Tree, volume: Tree) -> None:
        """Make the claim of a volume. Raises ValueError if the name belongs to another claim, or
        the claim cannot be made."""
        claim = claim_of(pod, volume)
        present = self._claims.lister.get(ObjectKey(namespace_of(pod), name_of(claim)))
        if present is not None:
            check_owner(pod, present.tree())
            return
        namespace = namespace_of(pod)
        claims = self.context.resource("v1", "persistentvolumeclaims", namespace=namespace)
        try:
            await claims.create(claim)
        except StatusError as error:
            raise ValueError(f"create PVC {name_of(claim)}: {error}") from error


def ephemeral_volumes(pod: Tree) -> list[Tree]:
    """Return the generic ephemeral volumes of a pod."""
    volumes = value_at(pod, "spec", "volumes") or ()
    return [volume for volume in volumes if volume.get("ephemeral") is not None]


def claim_of(pod: Tree, volume: Tree) -> Tree:
    """Return the claim of an ephemeral volume."""
    template = value_at(volume, "ephemeral", "volumeClaimTemplate") or {}
    metadata = template.get("metadata") or {}
    copied = {name: metadata[name] for name in ("annotations", "labels") if metadata.get(name)}
    owner = controller_reference(pod, "v1", "Pod")
    name = f"{name_of(pod)}-{volume['name']}"
    return {
        "metadata": {"name": name, "ownerReferences": [owner]} | copied,
        "spec": template.get("spec") or {},
    }


def check_owner(pod: Tree, claim: Tree) -> None:
    """Raise ValueError unless a claim was made for a pod."""
    if (controller_of(claim) or {}).get("uid") != uid_of(pod):
        raise ValueError(
            f"PVC {namespace_of(claim)}/{name_of(claim)} was not created for pod "
            f"{namespace_of(pod)}/{name_of(pod)} (pod is not owner)"
        )


def _ephemeral_claims(pod: Entry) -> Iterator[str]:
    tree = pod.tree()
    for volume in ephemeral_volumes(tree):
        yield f"{pod.key.namespace}/{name_of(tree)}-{volume['name']}"
