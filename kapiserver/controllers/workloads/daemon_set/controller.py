"""The controller of DaemonSets: it carries out the plans of `plan`.

Mirrors pkg/controller/daemon.
"""

from __future__ import annotations

from collections.abc import Iterable

from kapiserver.api.accessors import (
    is_terminating,
    labels_of,
    metadata_of,
    name_of,
    uid_of,
    value_at,
)
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.types import Tree
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import for_object
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.workloads.daemon_set.daemon_pods import new_daemon_pod
from kapiserver.controllers.workloads.daemon_set.plan import (
    DaemonSetPlan,
    Delay,
    plan_daemon_set,
)
from kapiserver.controllers.workloads.owned_objects import (
    OwnedObjects,
    controller_keys,
    for_possible_owners,
)
from kapiserver.controllers.workloads.pod_control import PodControl, PodError
from kapiserver.controllers.workloads.revision_history import RevisionHistory
from kapiserver.controllers.workloads.revisions import REVISION_HASH
from kapiserver.controllers.workloads.status import write_status
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange

_APPS = GroupVersion("apps", "v1")
_SELECTS_ALL = "This daemon set is selecting all pods. A non-empty selector is required."


class DaemonSetController(Controller[ObjectKey]):
    """Keeps one pod of each DaemonSet on each eligible node."""

    workers = 2
    min_retry_seconds = 0.005
    max_retry_seconds = 1000.0

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._delays: dict[str, tuple[int, dict[str, Delay]]] = {}
        """The delays of nodes on which pods have failed, by the uid of the DaemonSet, with the
        generation for which they count."""

    def set_up(self) -> None:
        """Watch DaemonSets, their pods and revisions, and nodes."""
        index, revision_index = Index(controller_keys), Index(controller_keys)
        self._owned = OwnedObjects(_APPS, "DaemonSet", index)
        self._sets = self.watch(_APPS, "daemonsets", self._on_daemon_set)
        of_pod = for_possible_owners(_APPS, "DaemonSet", self._sets)
        pods = self.watch(CORE, "pods", of_pod, index)
        self._nodes = self.watch(CORE, "nodes", self._on_node)
        revisions = self.watch(_APPS, "controllerrevisions", _no_keys, revision_index)
        self._history = RevisionHistory(
            self.context, revisions, revision_index, kind="DaemonSet", hash_label=REVISION_HASH
        )
        self._events = EventRecorder(self.context, "daemonset-controller")
        self._pods = PodControl(self.context, pods, self._events)

    def _on_daemon_set(self, change: ObjectChange) -> Iterable[ObjectKey]:
        if change.new is None:
            self._delays.pop(uid_of(change.last.tree()), None)
        return for_object(change)

    def _on_node(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Queue all DaemonSets if a node comes, goes, or changes its labels or taints."""
        if change.old is not None and change.new is not None:
            old, new = change.old.tree(), change.new.tree()
            if labels_of(old) == labels_of(new) and _taints_of(old) == _taints_of(new):
                return ()
        return [entry.key for entry in self._sets.lister.list()]

    async def reconcile(self, key: ObjectKey) -> None:
        """Carry out the next actions and write the status."""
        entry = self._sets.lister.get(key)
        if entry is None or is_terminating(owner := entry.tree()):
            return
        if not value_at(owner, "spec", "selector"):
            await self._events.warn(owner, "SelectingAll", _SELECTS_ALL)
            return
        owners = self.context.resource(str(_APPS), "daemonsets", namespace=key.namespace)
        history = await self._history.claim(owner, owners)
        revision, collisions = await self._history.update_revision(owner, history)
        text = _hash_of(revision)
        pods = await self._owned.claim(owner, owners, self._pods.pods(key.namespace), _any)
        nodes = [entry.tree() for entry in self._nodes.lister.list()]
        plan = plan_daemon_set(owner, nodes, pods, text, self._delays_of(owner), self.clock.now())
        self._delays[uid_of(owner)] = (_generation_of(owner), plan.delays)
        error = await self._carry_out(owner, plan, text)
        in_use = {text, *(labels_of(pod).get(REVISION_HASH) for pod in pods)}
        live = {name_of(revision) for revision in history if _hash_of(revision) in in_use}
        if collisions:
            plan.status["collisionCount"] = collisions
        await write_status(owners, self._sets, owner, plan.status)
        if not error:
            await self._history.truncate(owner, history, live)
        if plan.requeue_after is not None:
            self.queue.add_after(key, plan.requeue_after)
        if error:
            raise PodError(error)

    def _delays_of(self, owner: Tree) -> dict[str, Delay]:
        generation, delays = self._delays.get(uid_of(owner), (0, {}))
        return delays if generation == _generation_of(owner) else {}

    async def _carry_out(self, owner: Tree, plan: DaemonSetPlan, text: str) -> str:
        """Create and delete pods; return the message of an error, or ""."""
        for event in plan.events:
            record = self._events.warn if event.type == "Warning" else self._events.note
            await record(owner, event.reason, event.message)
        error = ""
        if plan.create:
            new = [new_daemon_pod(owner, node, text) for node in plan.create]
            _, error = await self._pods.create_all(owner, new)
        if plan.delete:
            error = await self._pods.delete_all(owner, plan.delete) or error
        return error


def _hash_of(revision: Tree) -> str:
    return labels_of(revision).get(REVISION_HASH) or name_of(revision)


def _generation_of(owner: Tree) -> int:
    return metadata_of(owner).get("generation") or 0


def _taints_of(node: Tree) -> list[Tree]:
    return value_at(node, "spec", "taints") or []


def _any(_pod: Tree) -> bool:
    return True


def _no_keys(_change: ObjectChange) -> tuple[()]:
    return ()
