"""The scheduler's shell: it keeps the snapshot, takes pending pods in turn, and writes decisions.

One worker decides about one pod at a time. A pod that is being bound is on the snapshot already, so
that the next decision counts it. Pods that fit nowhere are tried again when a node or another pod
changes so that it may help, never by the time. A pod that waits for the end of its victims is
nominated for their node, which keeps pods of a lower priority from taking their room.

Mirrors pkg/scheduler.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kapiserver.api.accessors import (
    annotations_of,
    generation_of,
    is_terminating,
    labels_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.resource_client import StatusError
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.controller import Controller, EventHandler
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import delete_object, suppress_reason, update_object
from kapiserver.controllers.resource_claims.pod_claims import RESOURCE, ClaimProblem
from kapiserver.controllers.volumes.annotations import SELECTED_NODE
from kapiserver.controllers.volumes.matching import claim_key, class_of, is_bound
from kapiserver.controllers.volumes.persistent_volume_binder import STORAGE, claim_keys
from kapiserver.controllers.workloads.conditions import find_condition, without_condition
from kapiserver.controllers.workloads.pods import is_finished, node_of
from kapiserver.simulation.scheduler.claim_reservations import ClaimReservations
from kapiserver.simulation.scheduler.pending_pods import MAX_PARKED_SECONDS, PendingPods
from kapiserver.simulation.scheduler.plugins.dynamic_resources import resource_claim_gate
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.preemption import PREEMPTION
from kapiserver.simulation.scheduler.schedule import Placement, Unschedulable, schedule
from kapiserver.simulation.scheduler.scheduling_error import SchedulingError
from kapiserver.simulation.scheduler.snapshot import Snapshot
from kapiserver.simulation.scheduler.volume_reservations import VolumeReservations
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.errors import StorageError
from kapiserver.storage.objects.informer import Index, ObjectChange
from kapiserver.storage.objects.lifecycle import timestamp

POLICY = GroupVersion("policy", "v1")
NAME = "default-scheduler"
"""The `schedulerName` of the pods that this scheduler is responsible for."""
_MAX_EVENT_MESSAGE = 1024
_TRUNCATED = " ..."


class Scheduler(Controller[ObjectKey]):
    """Assigns pods to nodes."""

    def set_up(self) -> None:
        """Watch devices and their claims, namespaces, volumes and their claims, nodes and pods."""
        self._snapshot = Snapshot()
        self._pending = PendingPods()
        self._pods_by_claim = Index(claim_keys)
        self._volumes = VolumeReservations(self.context, self._snapshot)
        self._events = EventRecorder(self.context, NAME)
        inventory = self._snapshot.inventory
        rules, snapshot = inventory.taint_rules, self._snapshot
        self.watch(RESOURCE, "deviceclasses", self._keep(inventory.classes, _may_need_devices))
        self.watch(RESOURCE, "devicetaintrules", self._keep(rules, _may_need_devices))
        self.watch(RESOURCE, "resourceslices", self._on_slice)
        claims = self.watch(RESOURCE, "resourceclaims", self._on_resource_claim)
        self._claims = ClaimReservations(self.context, claims)
        self.watch(POLICY, "poddisruptionbudgets", self._on_budget)
        self.watch(CORE, "namespaces", self._on_namespace)
        self.watch(STORAGE, "storageclasses", self._keep(snapshot.storage_classes, _has_claims))
        self.watch(STORAGE, "csidrivers", self._keep(snapshot.csi_drivers, _has_claims))
        self.watch(STORAGE, "csinodes", self._keep(snapshot.csi_nodes, _has_claims))
        capacities = self._keep(snapshot.storage_capacities, _has_claims)
        self.watch(STORAGE, "csistoragecapacities", capacities)
        self.watch(STORAGE, "volumeattachments", self._on_attachment)
        self.watch(CORE, "persistentvolumes", self._on_volume)
        self.watch(CORE, "persistentvolumeclaims", self._on_claim)
        self.watch(CORE, "nodes", self._on_node)
        self.watch(CORE, "pods", self._on_pod, self._pods_by_claim)

    # Changes: each handler returns the pods that it makes active.

    def _on_budget(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.last.key
        if change.new is None:
            self._snapshot.budgets.pop((key.namespace, key.name), None)
        else:
            self._snapshot.budgets[key.namespace, key.name] = change.new.tree()
        return ()

    def _on_namespace(self, change: ObjectChange) -> Iterable[ObjectKey]:
        name = change.last.key.name
        if change.new is None:
            self._snapshot.namespaces.pop(name, None)
        else:
            self._snapshot.namespaces[name] = change.new.labels
        return self._pending.activate(_depends_on_pods)

    def _on_volume(self, change: ObjectChange) -> Iterable[ObjectKey]:
        name = change.last.key.name
        if change.new is None:
            self._snapshot.remove_volume(name)
        else:
            self._snapshot.set_volume(change.new.tree())
        claim = claim_key(change.last.tree())
        return self._activate_users(claim) if claim else self._pending.activate(_has_claims)

    def _on_claim(self, change: ObjectChange) -> Iterable[ObjectKey]:
        key = change.last.key
        if change.new is None:
            self._snapshot.claims.pop((key.namespace, key.name), None)
        else:
            self._snapshot.set_claim(change.new.tree())
        if _binding_of(change.old) == _binding_of(change.new):
            return ()
        return self._activate_users(str(key))

    def _activate_users(self, claim: str) -> Iterable[ObjectKey]:
        """Make the pods active that use a claim, `NAMESPACE/NAME`."""
        return self._pending.activate_keys(entry.key for entry in self._pods_by_claim.get(claim))

    def _keep(
        self, trees: dict[str, Tree], may_help: Callable[[PodInfo], bool]
    ) -> EventHandler[ObjectKey]:
        """Return the handler of a resource whose objects are kept by `NAME` or by `NAMESPACE/NAME`,
        and may help pods."""

        def on_change(change: ObjectChange) -> Iterable[ObjectKey]:
            if change.new is None:
                trees.pop(str(change.last.key), None)
            else:
                trees[str(change.last.key)] = change.new.tree()
            return self._pending.activate(may_help)

        return on_change

    def _on_attachment(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.new is not None:
            self._snapshot.attachments[change.new.key.name] = change.new.tree()
            return ()
        self._snapshot.attachments.pop(change.last.key.name, None)
        return self._pending.activate(_has_claims)

    def _on_slice(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.new is None:
            self._snapshot.inventory.slices.remove(change.last.key.name)
        else:
            self._snapshot.inventory.slices.set(change.new.tree())
        return self._pending.activate(_may_need_devices)

    def _on_resource_claim(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.new is None:
            self._snapshot.inventory.remove_claim(*change.last.key)
        else:
            self._snapshot.inventory.set_claim(change.new.tree())
        statuses = [
            None if entry is None else entry.tree().get("status")
            for entry in (change.old, change.new)
        ]
        if change.old is not None and statuses[0] == statuses[1]:
            return ()
        return self._pending.activate(_may_need_devices)

    def _on_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.new is None:
            self._snapshot.remove_node(change.last.key.name)
            return self._pending.activate(_depends_on_pods)  # a domain less may be even
        node = change.new.tree()
        old = None if change.old is None else change.old.tree()
        is_as_before = old is not None and _room_of(old) == _room_of(node)
        if old is None or not is_as_before or _images_of(old) != _images_of(node):
            self._snapshot.set_node(node)
        return () if is_as_before else self._pending.activate(_always)

    def _on_pod(self, change: ObjectChange) -> Iterable[ObjectKey]:
        old, new = change.old, change.new
        keys: list[ObjectKey] = []
        if old is not None and (new is None or uid_of(old.tree()) != uid_of(new.tree())):
            keys.extend(self._on_end(old))
            old = None
        if new is not None:
            if is_finished(new.tree()):
                keys.extend(self._on_end(new))
            elif node_of(new.tree()):
                keys.extend(self._on_assigned(old, new))
            else:
                keys.extend(self._on_unassigned(old, new))
        return keys

    def _on_end(self, entry: Entry) -> Iterable[ObjectKey]:
        uid = uid_of(entry.tree())
        self._pending.remove(entry.key)
        ended = self._snapshot.remove_pod(uid)
        nominated = self._snapshot.nominated.pop(uid, None)
        has_helped = ended is not None or nominated is not None
        return self._pending.activate(_always) if has_helped else ()

    def _on_assigned(self, old: Entry | None, new: Entry) -> Iterable[ObjectKey]:
        self._pending.remove(new.key)
        pod = PodInfo(new.tree())
        self._snapshot.nominated.pop(pod.uid, None)
        if old is None or not node_of(old.tree()):
            self._snapshot.add_pod(pod)
            return self._pending.activate(_depends_on_pods)
        before = PodInfo(old.tree())
        is_same = _is_same_request(before.pod, pod.pod)
        is_same = is_same and before.is_terminating == pod.is_terminating
        if not is_same or before.started != pod.started:
            self._snapshot.add_pod(pod)
        return () if is_same else self._pending.activate(_always)  # its start helps no other pod

    def _on_unassigned(self, old: Entry | None, new: Entry) -> Iterable[ObjectKey]:
        pod = new.tree()
        info = PodInfo(pod)
        if info.spec.get("schedulerName", NAME) != NAME or info.is_terminating:
            self._pending.remove(new.key)
            return ()
        if info.spec.get("schedulingGates"):  # the API server has set the condition
            self._pending.remove(new.key)
            return ()
        self._nominate(info, info.nominated_node)
        if new.key in self._pending and (
            info.uid in self._snapshot or (old is not None and _is_same_request(old.tree(), pod))
        ):
            self._pending.update(new.key, info)
            return ()
        self._pending.add(new.key, info)
        return (new.key,)

    def _nominate(self, pod: PodInfo, node: str) -> None:
        """Reserve the room that a pending pod will have on a node; "" ends the reservation."""
        if node and pod.uid not in self._snapshot:
            self._snapshot.nominated[pod.uid] = PodInfo(pod.pod, node)
        else:
            self._snapshot.nominated.pop(pod.uid, None)

    # Decisions.

    async def reconcile(self, key: ObjectKey) -> None:
        """Decide about all active pods, the highest priority first, not only about that of the key:
        the queue of keys knows no priorities."""
        self._wait(key)
        while (pod := self._pending.pop()) is not None:
            if resource_claim_gate(pod, self._snapshot):
                self._park(pod)
                continue
            try:
                decision = schedule(pod, self._snapshot)
                if isinstance(decision, Placement) and decision.volume_claims:
                    await self._bind_volumes(pod, decision)
                elif isinstance(decision, Placement):
                    await self._bind_devices(pod, decision)
                else:
                    await self._report(pod, decision)
            except SchedulingError as error:
                await self._fail(pod, str(error))
            except (StatusError, StorageError) as error:
                await self._fail(
                    pod, f'binding rejected: running Bind plugin "DefaultBinder": {error}'
                )

    def _park(self, pod: PodInfo, seconds: float = MAX_PARKED_SECONDS) -> None:
        key = ObjectKey(pod.namespace, pod.name)
        self._pending.park(key, self.clock.now(), seconds)
        self._wait(key)

    def _wait(self, key: ObjectKey) -> None:
        """Try a waiting pod again when its time is over."""
        seconds = self._pending.retry(key, self.clock.now())
        if seconds is not None:
            self.queue.add_after(key, seconds)

    async def _bind_volumes(self, pod: PodInfo, placement: Placement) -> None:
        """Let the claims of a pod be bound, and try the pod again when one changes. Until then the
        pod is nominated for its node."""
        self._park(pod)
        self._nominate(pod, placement.node)
        with suppress_reason("NotFound", "Conflict"):  # the change of a claim makes it active
            await self._volumes.reserve(placement.node, placement.volume_claims)

    async def _bind_devices(self, pod: PodInfo, placement: Placement) -> None:
        """Reserve the claims of a pod and bind it. If its devices have binding conditions, which a
        driver makes true, the pod is tried again when a claim changes. Until then it is nominated
        for its node."""
        claims = await self._claims.reserve(pod.pod, placement.claims)
        try:
            present = self._snapshot.inventory.claims_of(pod.pod)
        except ClaimProblem as problem:  # a claim was deleted meanwhile
            raise SchedulingError(str(problem)) from None
        wait = await self._claims.seconds_to_wait(pod.pod, present)
        if wait is None:
            await self._bind(pod, placement.node, claims)
            return
        self._park(pod, wait)
        if pod.uid not in self._snapshot.nominated:
            message = f"waiting for binding conditions for device on node {placement.node}"
            await self._events.note(pod.pod, "BindingConditionsPending", message)
        self._nominate(pod, placement.node)

    async def _bind(self, pod: PodInfo, node: str, claims: Sequence[Tree]) -> None:
        assumed = PodInfo(pod.pod, node)
        self._nominate(pod, "")
        self._snapshot.add_pod(assumed)
        binding = {
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"kind": "Node", "name": node},
        }
        pods = self.context.resource("v1", "pods", namespace=pod.namespace)
        try:
            await pods.create(binding, name=pod.name, subresource="binding")
        except (StatusError, StorageError) as error:
            self._snapshot.remove_assumed(assumed)
            await self._claims.release(pod.pod, claims)
            # The informer reports a pod that is gone, being deleted or bound by somebody else.
            if isinstance(error, StatusError) and error.reason in ("NotFound", "Conflict"):
                return
            raise
        message = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        await self._events.note(pod.pod, "Scheduled", message)

    async def _report(self, pod: PodInfo, decision: Unschedulable) -> None:
        self._park(pod)
        nominated = decision.nominated_node
        self._nominate(pod, nominated)
        await self._write_condition(pod, "Unschedulable", decision.message, nominated)
        await self._evict(pod, decision)
        if decision.claim_to_free is not None:
            await self._claims.free(decision.claim_to_free)

    async def _fail(self, pod: PodInfo, message: str) -> None:
        """Report an error and try the pod again later."""
        key = ObjectKey(pod.namespace, pod.name)
        self._pending.back_off(key, self.clock.now())
        self._wait(key)
        self._nominate(pod, "")
        try:
            await self._write_condition(pod, "SchedulerError", message, "")
        except (StatusError, StorageError):
            return  # the next attempt reports it

    async def _write_condition(
        self, pod: PodInfo, reason: str, message: str, nominated: str
    ) -> None:
        await self._events.warn(pod.pod, "FailedScheduling", _truncated(message))
        now = timestamp(self.clock.now())

        def change(current: Tree) -> Tree:
            if node_of(current):
                return current
            status = current.setdefault("status", {})
            if nominated:
                status["nominatedNodeName"] = nominated
            else:
                status.pop("nominatedNodeName", None)
            return _with_condition(current, "PodScheduled", "False", reason, message, now)

        pods = self.context.resource("v1", "pods", namespace=pod.namespace)
        await update_object(pods, pod.name, change, subresource="status", uid=pod.uid)

    async def _evict(self, pod: PodInfo, decision: Unschedulable) -> None:
        """Delete the victims of a preemption, if it has any, and end the nominations of less
        important pods for their node."""
        for other in list(self._snapshot.nominated.values()):
            is_same_node = decision.victims and other.node_name == decision.nominated_node
            if is_same_node and other.priority < pod.priority:
                self._nominate(other, "")
                await self._clear_nomination(other)
        reason, now = PREEMPTION, timestamp(self.clock.now())
        message = f"{NAME}: preempting to accommodate a higher priority pod"
        for victim in decision.victims:
            if victim.is_terminating:
                continue
            pods = self.context.resource("v1", "pods", namespace=victim.namespace)
            with suppress_reason("NotFound"):
                await update_object(
                    pods,
                    victim.name,
                    lambda current: _with_condition(
                        current, "DisruptionTarget", "True", reason, message, now
                    ),
                    subresource="status",
                    uid=victim.uid,
                )
                await delete_object(pods, victim.name, uid=victim.uid)
            text = f"Preempted by pod {pod.uid} on node {decision.nominated_node}"
            await self._events.note(victim.pod, "Preempted", text)

    async def _clear_nomination(self, pod: PodInfo) -> None:
        def change(current: Tree) -> Tree:
            (current.get("status") or {}).pop("nominatedNodeName", None)
            return current

        pods = self.context.resource("v1", "pods", namespace=pod.namespace)
        await update_object(pods, pod.name, change, subresource="status", uid=pod.uid)


def _truncated(message: str) -> str:
    """Return a message that is short enough for an event."""
    if len(message) <= _MAX_EVENT_MESSAGE:
        return message
    return message[: _MAX_EVENT_MESSAGE - len(_TRUNCATED)] + _TRUNCATED


def _binding_of(claim: Entry | None) -> object:
    """Return what decides whether a claim keeps a pod from its node."""
    if claim is None:
        return None
    tree = claim.tree()
    selected = annotations_of(tree).get(SELECTED_NODE)
    named = value_at(tree, "spec", "volumeName"), class_of(tree)
    lost = value_at(tree, "status", "phase") == "Lost"
    return is_bound(tree), selected, named, lost, is_terminating(tree), uid_of(tree)


def _always(_pod: PodInfo) -> bool:
    return True


def _has_claims(pod: PodInfo) -> bool:
    return bool(pod.claims)


def _may_need_devices(pod: PodInfo) -> bool:
    """Report whether the pod has ResourceClaims, or resources that device classes may provide."""
    return bool(pod.resource_claims) or any("/" in name for name in pod.requests)


def _depends_on_pods(pod: PodInfo) -> bool:
    """Report whether where a pod may run depends on where other pods run."""
    return pod.affinity is not None or bool(pod.spread_constraints)


def _room_of(node: Tree) -> tuple[object, ...]:
    """Return what filters read of a node: heartbeats change nothing of it."""
    spec = node.get("spec") or {}
    allocatable = value_at(node, "status", "allocatable")
    return labels_of(node), spec.get("taints"), spec.get("unschedulable"), allocatable


def _images_of(node: Tree) -> object:
    return value_at(node, "status", "images")


def _is_same_request(old: Tree, new: Tree) -> bool:
    """Report whether two revisions of a pod ask for the same."""
    old_claims, new_claims = (
        value_at(obj, "status", "resourceClaimStatuses") for obj in (old, new)
    )
    is_same = old.get("spec") == new.get("spec") and labels_of(old) == labels_of(new)
    return is_same and old_claims == new_claims


def _with_condition(pod: Tree, kind: str, status: str, reason: str, message: str, now: str) -> Tree:
    """Return a pod with a condition, whose lastTransitionTime changes only with its status."""
    conditions = value_at(pod, "status", "conditions") or []
    present = find_condition(conditions, kind)
    condition: Tree = {
        "type": kind,
        "observedGeneration": generation_of(pod),
        "status": status,
        "lastProbeTime": None,
        "lastTransitionTime": now,
        "reason": reason,
        "message": message,
    }
    if present is not None and present.get("status") == status:
        condition["lastTransitionTime"] = present.get("lastTransitionTime")
    if condition == present:
        return pod
    pod["status"] = {
        **(pod.get("status") or {}),
        "conditions": [*without_condition(conditions, kind), condition],
    }
    return pod
