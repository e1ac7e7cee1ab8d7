"""Binds claims to volumes, and reclaims volumes whose claim is gone.

`claim_plan` and `volume_plan` decide, this module watches and writes. One worker reconciles one
claim or volume at a time, and waits until the informers show its writes: so no volume gets two
claims. Claims that nothing fits are tried again when a volume, a class or a pod changes so that it
may help, never by the time. Mirrors pkg/controller/volume/persistentvolume.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from kapiserver.api.accessors import (
    annotations_of,
    name_of,
    namespace_of,
    resource_version_of,
    uid_of,
    value_at,
)
from kapiserver.api.core.pods.references import claim_names
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.admission.plugins.default_class import STORAGE_CLASS_MARKS, newest_default
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import delete_object
from kapiserver.controllers.volumes.annotations import BIND_COMPLETED
from kapiserver.controllers.volumes.claim_plan import ClaimPlan, ClaimState, plan_claim
from kapiserver.controllers.volumes.matching import claim_key, class_of
from kapiserver.controllers.volumes.volume_plan import VolumePlan, VolumeState, plan_volume
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.controllers.workloads.pods import is_finished, node_of
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.kv.contract import Revision
from kapiserver.storage.objects.informer import Index, Informer, ObjectChange

STORAGE = GroupVersion("storage.k8s.io", "v1")


class BinderItem(NamedTuple):
    """What the queue holds: a claim or a volume."""

    kind: Literal["claim", "volume"]
    key: ObjectKey


class PersistentVolumeBinder(Controller[BinderItem]):
    """Binds claims to volumes."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, "persistentvolume-controller")

    def set_up(self) -> None:
        """Watch classes, pods, volumes and claims."""
        self._pods_by_claim = Index(claim_keys)
        self._free_volumes_by_class = Index(_class_of_free)
        self._volumes_by_claim = Index(lambda entry: (claim_key(entry.tree()),))
        self._claims_by_volume = Index(_volume_name)
        self._unbound_by_class = Index(_class_of_unbound)
        self._classes = self.watch(STORAGE, "storageclasses", self._on_class)
        self._pods = self.watch(CORE, "pods", self._on_pod, self._pods_by_claim)
        indexes = (self._free_volumes_by_class, self._volumes_by_claim)
        self._volumes = self.watch(CORE, "persistentvolumes", self._on_volume, *indexes)
        indexes = (self._claims_by_volume, self._unbound_by_class)
        self._claims = self.watch(CORE, "persistentvolumeclaims", self._on_claim, *indexes)

    # Changes: each handler yields what the change may help.

    def _on_class(self, change: ObjectChange) -> Iterator[BinderItem]:
        if change.new is not None:
            for name in (change.new.key.name, ""):
                yield from _items("claim", self._unbound_by_class.get(name))

    def _on_pod(self, change: ObjectChange) -> Iterator[BinderItem]:
        """A new pod is a consumer of its claims; one that ends leaves volumes to recycle."""
        if change.old is not None and change.new is not None and not is_finished(change.new.tree()):
            return
        for reference in claim_keys(change.last):
            key = ObjectKey(*reference.split("/"))
            claim = self._claims.lister.get(key)
            if claim is not None and BIND_COMPLETED not in annotations_of(claim.tree()):
                yield BinderItem("claim", key)
            yield from _items("volume", self._volumes_by_claim.get(reference))

    def _on_volume(self, change: ObjectChange) -> Iterator[BinderItem]:
        yield BinderItem("volume", change.last.key)
        yield from _items("claim", self._claims_by_volume.get(change.last.key.name))
        if change.new is not None and not claim_key(change.new.tree()):
            yield from _items("claim", self._unbound_by_class.get(class_of(change.new.tree())))

    def _on_claim(self, change: ObjectChange) -> Iterator[BinderItem]:
        key = change.last.key
        yield BinderItem("claim", key)
        yield from _items("volume", self._volumes_by_claim.get(f"{key.namespace}/{key.name}"))

    # Decisions.

    async def reconcile(self, item: BinderItem) -> None:
        """Bring a claim or a volume to the state that its plan says."""
        informer, act = {
            "claim": (self._claims, self._reconcile_claim),
            "volume": (self._volumes, self._reconcile_volume),
        }[item.kind]
        entry = informer.lister.get(item.key)
        if entry is None:
            return
        try:
            await act(entry.tree())
        except StatusError as error:
            if error.reason not in ("Conflict", "NotFound"):
                raise
            await self._volumes.fresh()  # the plan was made from older objects
            await self._claims.fresh()
            self.queue.add(item)

    async def _reconcile_claim(self, claim: Tree) -> None:
        plan = plan_claim(self._state_of_claim(claim))
        await self._carry_out_claim(claim, plan)

    def _state_of_claim(self, claim: Tree) -> ClaimState:
        reference = f"{namespace_of(claim)}/{name_of(claim)}"
        free = self._free_volumes_by_class.get(class_of(claim))
        candidates = (*free, *self._volumes_by_claim.get(reference))
        return ClaimState(
            claim=claim,
            volume=_tree_of(self._volumes, value_at(claim, "spec", "volumeName")),
            candidates=[entry.tree() for entry in candidates],
            storage_class=_tree_of(self._classes, class_of(claim)),
            default_class=newest_default(_trees(self._classes.lister.list()), STORAGE_CLASS_MARKS),
            waiting_pods=[name_of(pod) for pod in self._users_of(reference) if not node_of(pod)],
        )

    def _users_of(self, reference: str) -> list[Tree]:
        pods = _trees(self._pods_by_claim.get(reference))
        return [pod for pod in pods if not is_finished(pod)]

    async def _carry_out_claim(self, claim: Tree, plan: ClaimPlan) -> None:
        if plan.volume is not None:
            await self._write(self._volumes, self._volume_client, plan.volume)
        await self._write(self._claims, self._claim_client(claim), plan.claim)
        await self._record(claim, plan.event)

    async def _reconcile_volume(self, volume: Tree) -> None:
        plan = plan_volume(await self._state_of_volume(volume))
        await self._carry_out_volume(volume, plan)

    async def _state_of_volume(self, volume: Tree) -> VolumeState:
        claim = self._claim_of(volume)
        uid = value_at(volume, "spec", "claimRef", "uid")
        if uid and (claim is None or uid_of(claim) != uid):
            # Whoever made the volume may have seen a claim that is not delivered yet.
            await self._claims.fresh()
            claim = self._claim_of(volume)
        users = [f"{namespace_of(pod)}/{name_of(pod)}" for pod in self._users_of(claim_key(volume))]
        return VolumeState(volume=volume, claim=claim, users=users)

    def _claim_of(self, volume: Tree) -> Tree | None:
        reference = value_at(volume, "spec", "claimRef") or {}
        namespace, name = reference.get("namespace") or "", reference.get("name") or ""
        return _tree_of(self._claims, name, namespace)

    async def _carry_out_volume(self, volume: Tree, plan: VolumePlan) -> None:
        await self._write(self._volumes, self._volume_client, plan.volume)
        await self._record(volume, plan.event)
        claim = self._claim_of(volume)
        if claim is not None:
            await self._record(claim, plan.claim_event)
            if plan.binds_claim:
                key = ObjectKey(namespace_of(claim), name_of(claim))
                self.queue.add(BinderItem("claim", key))
        if plan.is_deleted:
            await delete_object(self._volume_client, name_of(volume), uid=uid_of(volume))

    # Writes.

    @property
    def _volume_client(self) -> ResourceClient:
        return self.context.resource("v1", "persistentvolumes").shared

    def _claim_client(self, claim: Tree) -> ResourceClient:
        namespace = namespace_of(claim)
        return self.context.resource("v1", "persistentvolumeclaims", namespace=namespace).shared

    async def _write(self, informer: Informer, objects: ResourceClient, desired: Tree) -> None:
        """Write an object and its status where they differ from what the informer shows, and wait
        until it shows them. Raises StatusError, a Conflict if the object has changed."""
        current = _tree_of(informer, name_of(desired), namespace_of(desired)) or {}
        status = desired.get("status")
        if current | {"status": status} != desired:
            current = await objects.update(desired)
        if current.get("status") != status:
            current = await objects.update(current | {"status": status}, subresource="status")
        await informer.wait_for(Revision(int(resource_version_of(current))))

    async def _record(self, obj: Tree, event: PlannedEvent | None) -> None:
        if event is None:
            return
        record = self._events.warn if event.type == "Warning" else self._events.note
        await record(obj, event.reason, event.message)


def claim_keys(pod: Entry) -> Iterable[str]:
    """Return `NAMESPACE/NAME` of the claims of a pod."""
    return [f"{pod.key.namespace}/{name}" for name in claim_names(pod.tree())]


def _volume_name(claim: Entry) -> Iterable[str]:
    name = value_at(claim.tree(), "spec", "volumeName")
    return (name,) if name else ()


def _class_of_free(volume: Entry) -> Iterable[str]:
    """Return the class of a volume that no claim has, and that is reserved for none."""
    return () if claim_key(volume.tree()) else (class_of(volume.tree()),)


def _class_of_unbound(claim: Entry) -> Iterable[str]:
    """Return the class of a claim that waits for any volume."""
    return () if value_at(claim.tree(), "spec", "volumeName") else (class_of(claim.tree()),)


def _items(kind: Literal["claim", "volume"], entries: Iterable[Entry]) -> Iterator[BinderItem]:
    for entry in entries:
        yield BinderItem(kind, entry.key)


def _tree_of(informer: Informer, name: str | None, namespace: str = "") -> Tree | None:
    entry = informer.lister.get(ObjectKey(namespace, name)) if name else None
    return None if entry is None else entry.tree()


def _trees(entries: Iterable[Entry]) -> list[Tree]:
    return [entry.tree() for entry in entries]
