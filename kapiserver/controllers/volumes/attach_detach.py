"""Attaches the CSI volumes of pods to their nodes by VolumeAttachments, and reports in the status
of nodes what is attached. `attach_plan` decides. Mirrors pkg/controller/volume/attachdetach."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from kapiserver.api.accessors import name_of, uid_of, value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import create_missing, delete_object, suppress_reason
from kapiserver.controllers.volumes.attach_plan import (
    AttachPlan,
    AttachState,
    attached_volumes,
    attachment_of,
    needs_attachment,
    node_of_attachment,
    plan_attachments,
    unique_name,
)
from kapiserver.controllers.volumes.matching import claim_key, is_in_bound_phase
from kapiserver.controllers.volumes.persistent_volume_binder import STORAGE, claim_keys
from kapiserver.controllers.workloads.pods import is_finished, node_of
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, Informer, ObjectChange


class AttachItem(NamedTuple):
    """What the queue holds: a volume or a node."""

    kind: Literal["volume", "node"]
    name: str


class AttachDetachController(Controller[AttachItem]):
    """Attaches and detaches volumes."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, "attachdetach-controller")
        self._unneeded: dict[str, float] = {}
        """Since when no pod needs an attachment, by its name."""
        self._reported: dict[str, dict[str, str]] = {}
        """The last warning about each volume of a pod, by uid and name: it is recorded once."""

    def set_up(self) -> None:
        """Watch drivers, nodes, pods, claims, volumes and their attachments."""
        self._pods_by_claim = Index(claim_keys)
        self._volumes_by_claim = Index(lambda entry: (claim_key(entry.tree()),))
        self._attachments_by_volume = Index(_volume_of_attachment)
        self._attachments_by_node = Index(lambda entry: (node_of_attachment(entry.tree()),))
        self._drivers = self.watch(STORAGE, "csidrivers")
        self._volumes = self.watch(CORE, "persistentvolumes", _on_volume, self._volumes_by_claim)
        indexes = (self._attachments_by_volume, self._attachments_by_node)
        self._attachments = self.watch(STORAGE, "volumeattachments", self._on_attachment, *indexes)
        self._nodes = self.watch(CORE, "nodes", self._on_node)
        self._claims = self.watch(CORE, "persistentvolumeclaims", self._on_claim)
        self._pods = self.watch(CORE, "pods", self._on_pod, self._pods_by_claim)

    def _on_attachment(self, change: ObjectChange) -> Iterator[AttachItem]:
        if change.new is None:
            self._unneeded.pop(change.last.key.name, None)
        yield AttachItem("volume", _volume_name(change.last.tree()))
        yield AttachItem("node", node_of_attachment(change.last.tree()))

    def _on_node(self, change: ObjectChange) -> Iterator[AttachItem]:
        """Queue a node whose attached volumes have changed, and the volumes about which it says
        something else. A node with many volumes reports each of them one after the other."""
        name = change.last.key.name
        if _attached_to(change.old) != _attached_to(change.new):
            yield AttachItem("node", name)
        is_as_before = _health_of(change.old) == _health_of(change.new)
        changed = _in_use(change.old) ^ _in_use(change.new)
        if is_as_before and not changed:
            return
        for entry in self._attachments_by_node.get(name):
            volume = _tree_of(self._volumes, _volume_name(entry.tree()))
            if not is_as_before or volume is None or unique_name(volume) in changed:
                yield AttachItem("volume", _volume_name(entry.tree()))

    def _on_claim(self, change: ObjectChange) -> Iterator[AttachItem]:
        return self._volumes_of(str(change.last.key))

    def _on_pod(self, change: ObjectChange) -> Iterator[AttachItem]:
        """Queue the volumes of a pod that gets a node, ends or is deleted."""
        if change.new is None:
            self._reported.pop(uid_of(change.last.tree()), None)
        if _use_of(change.old) != _use_of(change.new):
            for key in claim_keys(change.last):
                yield from self._volumes_of(key)

    def _volumes_of(self, claim: str) -> Iterator[AttachItem]:
        for entry in self._volumes_by_claim.get(claim):
            yield AttachItem("volume", entry.key.name)

    async def reconcile(self, item: AttachItem) -> None:
        """Attach and detach a volume, or report what is attached to a node."""
        if item.kind == "volume":
            await self._reconcile_volume(item)
        else:
            await self._report(item.name)

    async def _reconcile_volume(self, item: AttachItem) -> None:
        attachments = [entry.tree() for entry in self._attachments_by_volume.get(item.name)]
        volume = _tree_of(self._volumes, item.name)
        if volume is None or not needs_attachment(volume, self._driver_of(volume)):
            await self._delete([name_of(attachment) for attachment in attachments])
            return
        now = self.clock.now()
        state = self._state_of(volume, attachments)
        self._note_unneeded(state, now)
        plan = plan_attachments(state, now)
        await self._carry_out(volume, plan)
        if plan.wait is not None:
            self.queue.add_after(item, plan.wait)

    def _driver_of(self, volume: Tree) -> Tree | None:
        return _tree_of(self._drivers, value_at(volume, "spec", "csi", "driver") or "")

    def _state_of(self, volume: Tree, attachments: list[Tree]) -> AttachState:
        pods = self._users_of(volume)
        names = {*(node_of(pod) for pod in pods), *map(node_of_attachment, attachments)}
        nodes = {name: node for name in names if (node := _tree_of(self._nodes, name)) is not None}
        return AttachState(
            volume=volume,
            pods=pods,
            attachments=attachments,
            nodes=nodes,
            unneeded=self._unneeded,
        )

    def _users_of(self, volume: Tree) -> list[Tree]:
        """Return the pods on nodes that use a volume, by its claim if that is bound."""
        key = claim_key(volume)
        namespace, _, name = key.partition("/")
        claim = _tree_of(self._claims, name, namespace) or {}
        named = value_at(claim, "spec", "volumeName")
        if not is_in_bound_phase(claim) or named != name_of(volume):
            return []
        pods = (entry.tree() for entry in self._pods_by_claim.get(key))
        return [pod for pod in pods if node_of(pod) and not is_finished(pod)]

    def _note_unneeded(self, state: AttachState, now: float) -> None:
        nodes = {node_of(pod) for pod in state.pods}
        for attachment in state.attachments:
            if node_of_attachment(attachment) in nodes:
                self._unneeded.pop(name_of(attachment), None)
            else:
                self._unneeded.setdefault(name_of(attachment), now)

    async def _carry_out(self, volume: Tree, plan: AttachPlan) -> None:
        await self._delete(plan.detach)
        client = self.context.resource(str(STORAGE), "volumeattachments")
        for node in plan.attach:
            await create_missing(client, attachment_of(volume, node))
        for pod, event in plan.events:
            await self._warn_once(volume, pod, event.message)

    async def _delete(self, names: Iterable[str]) -> None:
        client = self.context.resource(str(STORAGE), "volumeattachments")
        for name in names:
            await delete_object(client, name)

    async def _warn_once(self, volume: Tree, pod: Tree, message: str) -> None:
        reported = self._reported.setdefault(uid_of(pod), {})
        if reported.get(name_of(volume)) != message:
            reported[name_of(volume)] = message
            await self._events.warn(pod, "FailedAttachVolume", message)

    # The status of nodes, and events about attachments.

    async def _report(self, name: str) -> None:
        """Write what is attached to a node, and tell its pods."""
        node = _tree_of(self._nodes, name)
        if node is None:
            return
        attachments = [entry.tree() for entry in self._attachments_by_node.get(name)]
        volumes = {
            name_of(volume): volume
            for attachment in attachments
            if (volume := _tree_of(self._volumes, _volume_name(attachment))) is not None
        }
        attached = attached_volumes(attachments, volumes)
        before = value_at(node, "status", "volumesAttached") or []
        if attached != before:
            nodes = self.context.resource("v1", "nodes")
            patch = {"status": {"volumesAttached": attached}}
            with suppress_reason("NotFound"):
                await nodes.patch(name, patch, subresource="status")
        new = [volume_status for volume_status in attached if volume_status not in before]
        for volume in volumes.values():
            if {"name": unique_name(volume), "devicePath": ""} in new:
                await self._tell_attached(volume, name)
        for attachment in attachments:
            await self._tell_error(attachment, volumes.get(_volume_name(attachment)))

    async def _tell_attached(self, volume: Tree, node: str) -> None:
        message = f'AttachVolume.Attach succeeded for volume "{name_of(volume)}" '
        for pod in self._users_of(volume):
            if node_of(pod) == node:
                self._reported.pop(uid_of(pod), None)
                await self._events.note(pod, "SuccessfulAttachVolume", message)

    async def _tell_error(self, attachment: Tree, volume: Tree | None) -> None:
        error = value_at(attachment, "status", "attachError", "message")
        if volume is None or not error:
            return
        message = f'AttachVolume.Attach failed for volume "{name_of(volume)}" : {error}'
        for pod in self._users_of(volume):
            if node_of(pod) == node_of_attachment(attachment):
                await self._warn_once(volume, pod, message)


def _on_volume(change: ObjectChange) -> Iterable[AttachItem]:
    return (AttachItem("volume", change.last.key.name),)


def _volume_name(attachment: Tree) -> str:
    return value_at(attachment, "spec", "source", "persistentVolumeName") or ""


def _volume_of_attachment(attachment: Entry) -> Iterable[str]:
    return (_volume_name(attachment.tree()),)


def _health_of(node: Entry | None) -> object:
    """Return what decides about all volumes of a node; None if it does not exist."""
    if node is None:
        return None
    conditions = value_at(node.tree(), "status", "conditions") or ()
    ready = [
        condition.get("status") for condition in conditions if condition.get("type") == "Ready"
    ]
    return ready, value_at(node.tree(), "spec", "taints")


def _attached_to(node: Entry | None) -> object:
    """Return the attached volumes that a node shows; None if it does not exist."""
    return None if node is None else value_at(node.tree(), "status", "volumesAttached") or []


def _in_use(node: Entry | None) -> frozenset[str]:
    """Return the unique names of the volumes that a node uses."""
    tree: Tree = {} if node is None else node.tree()
    return frozenset(value_at(tree, "status", "volumesInUse") or ())


def _use_of(pod: Entry | None) -> str:
    """Return the node on which a pod uses its volumes, or ""."""
    if pod is None or is_finished(pod.tree()):
        return ""
    return node_of(pod.tree())


def _tree_of(informer: Informer, name: str, namespace: str = "") -> Tree | None:
    entry = informer.lister.get(ObjectKey(namespace, name)) if name else None
    return None if entry is None else entry.tree()
