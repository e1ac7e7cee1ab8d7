"""Deletes pods whose devices have NoExecute taints that their claims do not tolerate.

    the claim                             what happens to the pods that it is reserved for
    does not tolerate some taint          they are deleted when the taint is added
    tolerates all, some for seconds       they are deleted this many seconds later
    tolerates all for ever                they stay
    the taints are gone meanwhile         they stay

Taints are those of devices in ResourceSlices and those of DeviceTaintRules. `eviction_time` decides
this, and is pure. Mirrors pkg/controller/devicetainteviction, without the status of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from kapiserver.api.accessors import is_terminating, value_at
from kapiserver.api.core.pods.tolerations import tolerates
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.nodes.taint_eviction import evict_pod, no_execute_taints
from kapiserver.controllers.resource_claims.pod_claims import (
    RESOURCE,
    ClaimProblem,
    check_owner,
    claim_name,
    is_reserved_for,
    pod_claims_of,
)
from kapiserver.controllers.workloads.pods import is_finished, node_of, seconds_of
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange

_REASON = "DeletionByDeviceTaintManager"
_MESSAGE = "Device Taint manager: deleting due to NoExecute taint"


def _pool_of(entry: Entry) -> Iterable[str]:
    spec = entry.tree().get("spec") or {}
    return (f"{spec.get('driver')}/{value_at(spec, 'pool', 'name')}",)


class DeviceTaintEvictionController(Controller[ObjectKey]):
    """The control loop; its queue holds the keys of pods."""

    workers = 8

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, "device-taint-eviction-controller")
        self._planned: dict[ObjectKey, float] = {}

    def set_up(self) -> None:
        """Watch slices, rules, claims and pods."""
        self._slices_by_pool = Index(_pool_of)
        self._slices = self.watch(RESOURCE, "resourceslices", self._on_taints, self._slices_by_pool)
        self._rules = self.watch(RESOURCE, "devicetaintrules", self._on_taints)
        self._claims = self.watch(RESOURCE, "resourceclaims", self._on_claim)
        self._pods = self.watch(CORE, "pods", self._on_pod)

    def _on_taints(self, _change: ObjectChange) -> Iterator[ObjectKey]:
        for entry in self._claims.lister.list():
            yield from _consumers(entry)

    def _on_claim(self, change: ObjectChange) -> Iterator[ObjectKey]:
        yield from _consumers(change.last)

    def _on_pod(self, change: ObjectChange) -> Iterator[ObjectKey]:
        if pod_claims_of(change.last.tree()):
            yield change.last.key

    async def reconcile(self, key: ObjectKey) -> None:
        """Delete a pod, or plan or cancel its deletion."""
        entry, planned = self._pods.lister.get(key), self._planned.pop(key, None)
        due = self._due(entry.tree()) if entry is not None else None
        if entry is None or due is None:
            if planned is not None:
                await self._report(key, "Cancelling deletion")
            return
        wait = due - self.clock.now()
        if wait > 0:
            self._planned[key] = due
            self.queue.add_after(key, wait)
        else:
            await self._evict(key, entry.tree())

    def _due(self, pod: Tree) -> float | None:
        """Return when a pod is to be deleted, in seconds since 1970; None if it may stay."""
        if not node_of(pod) or is_terminating(pod) or is_finished(pod):
            return None
        times = [eviction_time(claim, self._taints_of) for claim in self._claims_of(pod)]
        return min((time for time in times if time is not None), default=None)

    def _claims_of(self, pod: Tree) -> Iterator[Tree]:
        """Yield the claims that are reserved for a pod."""
        for reference in pod_claims_of(pod):
            try:
                key = ObjectKey(pod["metadata"]["namespace"], claim_name(pod, reference))
                entry = self._claims.lister.get(key)
                if entry is not None and is_reserved_for(pod, entry.tree()):
                    check_owner(pod, reference, entry.tree())
                    yield entry.tree()
            except ClaimProblem:
                continue

    def _taints_of(self, result: Tree) -> list[Tree]:
        """Return the NoExecute taints of an allocated device."""
        slices = [
            entry.tree()
            for entry in self._slices_by_pool.get(f"{result['driver']}/{result['pool']}")
        ]
        newest = max((_generation_of(slice_) for slice_ in slices), default=0)
        devices = [
            device
            for slice_ in slices
            if _generation_of(slice_) == newest
            for device in value_at(slice_, "spec", "devices") or ()
            if device["name"] == result["device"]
        ]
        rules = (entry.tree() for entry in self._rules.lister.list())
        own = [taint for device in devices for taint in no_execute_taints({"spec": device})]
        return [*own, *(taint for rule in rules for taint in rule_taints(rule, result))]

    async def _evict(self, key: ObjectKey, pod: Tree) -> None:
        await self._report(key, "Marking for deletion")
        await evict_pod(self.context, pod, _REASON, _MESSAGE)

    async def _report(self, key: ObjectKey, message: str) -> None:
        metadata = {"namespace": key.namespace, "name": key.name}
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
        await self._events.note(pod, "DeviceTaintManagerEviction", message)


def _consumers(claim: Entry) -> Iterator[ObjectKey]:
    for consumer in value_at(claim.tree(), "status", "reservedFor") or ():
        if consumer.get("resource") == "pods":
            yield ObjectKey(claim.key.namespace, consumer["name"])


def _generation_of(slice_: Tree) -> int:
    return value_at(slice_, "spec", "pool", "generation") or 0


def rule_taints(rule: Tree, result: Tree) -> Sequence[Tree]:
    """Return the NoExecute taint of a rule if it is about an allocated device. A rule without a
    selector is about none."""
    selector = value_at(rule, "spec", "deviceSelector")
    taint: Tree = value_at(rule, "spec", "taint") or {}
    if selector is None or taint.get("effect") != "NoExecute":
        return ()
    names = ("driver", "pool", "device")
    is_meant = all(selector.get(name) in (None, result[name]) for name in names)
    return (taint,) if is_meant else ()


def eviction_time(claim: Tree, taints_of: Callable[[Tree], Iterable[Tree]]) -> float | None:
    """Return when the pods of an allocated claim are to be deleted, in seconds since 1970; None if
    they may stay.

    taints_of   returns the NoExecute taints of a device, which is an item of the allocation
    """
    results = value_at(claim, "status", "allocation", "devices", "results") or ()
    times = [
        time
        for result in results
        for taint in taints_of(result)
        if (time := _intolerable_since(taint, result.get("tolerations") or ())) is not None
    ]
    return min(times, default=None)


def _intolerable_since(taint: Tree, tolerations: Sequence[Tree]) -> float | None:
    """Return when a taint is not tolerated any more; None if it is tolerated for ever."""
    matching = [
        toleration
        for toleration in tolerations
        if toleration.get("effect") == "NoExecute" and tolerates([toleration], taint)
    ]
    limits = [toleration.get("tolerationSeconds") for toleration in matching]
    if None in limits:
        return None
    seconds = min((max(limit, 0) for limit in limits if limit is not None), default=0)
    return (seconds_of(taint.get("timeAdded")) or 0.0) + seconds
