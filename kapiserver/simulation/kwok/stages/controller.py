"""Lets objects live as Stages say.

    change of an object      a stage that selects it is chosen, and the time when it applies
    at that time             its steps are carried out, and what they change leads to the next stage
    change meanwhile         the choice begins again
    change of a Stage        the choice begins again for all objects of its kind

Mirrors pod_controller.go, node_controller.go and stage_controller.go of kwok's
pkg/kwok/controllers. Choices are kept in memory, as in kwok: a server that starts again chooses
again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kapiserver.api.accessors import kind_of, metadata_of, name_of, namespace_of, uid_of, value_at
from kapiserver.api.errors import NotRegistered
from kapiserver.api.group import CORE, GroupVersionKind
from kapiserver.api.resource_client import (
    MERGE_PATCH,
    STRATEGIC_MERGE_PATCH,
    ResourceClient,
    StatusError,
)
from kapiserver.api.types import Tree
from kapiserver.apiserver.user import AUTHENTICATED, User
from kapiserver.apiserver.version import emulated_minor, git_version
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_handlers import field_value
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.served_watch import ServedWatch
from kapiserver.controllers.loop.writing import delete_object
from kapiserver.controllers.workloads.pods import node_of
from kapiserver.simulation.kwok.kinds import KWOK
from kapiserver.simulation.kwok.stages.choice import choose, delay_of
from kapiserver.simulation.kwok.stages.hosts import SimulatedHosts
from kapiserver.simulation.kwok.stages.lifecycles import NODE, POD, lifecycles_of
from kapiserver.simulation.kwok.stages.rendering import Renderer, Surroundings
from kapiserver.simulation.kwok.stages.stage import Stage
from kapiserver.simulation.kwok.stages.steps import (
    APPLY,
    Action,
    ApplyObject,
    DeleteObject,
    PatchObject,
    ReportEvent,
    actions_of,
)
from kapiserver.simulation.node_objects import has_kubelet
from kapiserver.simulation.templates.errors import TemplateError
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import Index, ObjectChange

_MANAGER = "kwok"
_RETRIABLE = frozenset((429, 500, 503, 504))
_MOST_PLAYS = 10
"""How often stages apply to one object within a second: stages that lead to each other without a
delay must not keep the server busy."""

_log = logging.getLogger(__name__)


class StagedObject(NamedTuple):
    """An object of a kind that has Stages."""

    kind: GroupVersionKind
    key: ObjectKey


@dataclass
class Plan:
    """What happens to an object next, as it is at one revision.

    stages      those that the stage was chosen from
    due         when the stage applies
    next_step   the first step that is not done; a step that fails for a while is done again
    second      the second in which stages applied last, and how often they did: `plays`
    """

    revision: int
    stages: tuple[Stage, ...]
    stage: Stage | None = None
    due: float = 0.0
    next_step: int = 0
    is_done: bool = False
    second: int = 0
    plays: int = 0


class StageController(Controller[StagedObject]):
    """The control loop of all kinds that have Stages."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._events = EventRecorder(context, _MANAGER)
        self._hosts = SimulatedHosts(self._find_node)
        self._rng = self.server.stores.identifiers.rng
        release = emulated_minor(self.server.config.features.emulated_version)
        surroundings = Surroundings(
            self._hosts, self.clock.now, self.clock.now(), git_version(release)
        )
        self._renderer = Renderer(surroundings)
        self._stages: Mapping[GroupVersionKind, tuple[Stage, ...]] = {}
        self._plans: dict[StagedObject, Plan] = {}
        self._pods_by_node = Index(field_value("spec", "nodeName"))

    def set_up(self) -> None:
        """Watch Stages and nodes. The objects of other kinds are watched when they have Stages."""
        self._objects = {NODE: ServedWatch(self, CORE, "nodes", self._on_node)}
        self._all_stages = ServedWatch(self, KWOK, "stages", self._on_stage)
        self.add_subscription(self.server.custom_resources.subscribe(self._on_definitions))

    # What leads to a reconcile.

    def _on_stage(self, _change: ObjectChange) -> Iterator[StagedObject]:
        """Queue all objects of the kinds whose Stages have changed."""
        before, self._stages = self._stages, lifecycles_of(self._all_stages.list())
        for kind in before.keys() - self._stages.keys():
            self._forget_kind(kind)
        for kind in before.keys() | self._stages.keys():
            if before.get(kind) != self._stages.get(kind):
                self._watch_kind(kind)
                watch = self._objects.get(kind)
                for entry in () if watch is None else watch.list():
                    yield StagedObject(kind, entry.key)

    def _forget_kind(self, kind: GroupVersionKind) -> None:
        """Forget what happens next to the objects of a kind that has no Stages any more, and end
        their watch. Nodes and pods are watched on: the addresses of pods must be known."""
        self._plans = {item: plan for item, plan in self._plans.items() if item.kind != kind}
        if kind in self._objects and kind not in (NODE, POD):
            self._objects.pop(kind).cancel()

    def _on_definitions(self, _names: Sequence[str]) -> None:
        """Watch kinds that are served now."""
        for kind in self._stages:
            self._watch_kind(kind)

    def _watch_kind(self, kind: GroupVersionKind) -> None:
        """Watch the objects of a kind that has Stages, if it is served."""
        if kind in self._objects or kind not in self._stages or kind == KWOK.with_kind("Stage"):
            return
        try:
            resource = self.server.scheme.resource_of(kind)
        except NotRegistered:
            return  # the reporter says so in the status of the Stage
        indexes = [self._pods_by_node] if kind == POD else []
        self._objects[kind] = ServedWatch(
            self, kind.group_version, resource.name, self._on_object(kind), *indexes
        )

    def _on_object(
        self, kind: GroupVersionKind
    ) -> Callable[[ObjectChange], Iterator[StagedObject]]:
        def queue_object(change: ObjectChange) -> Iterator[StagedObject]:
            if kind == POD:
                self._hosts.note(change)
            yield StagedObject(kind, change.last.key)

        return queue_object

    def _on_node(self, change: ObjectChange) -> Iterator[StagedObject]:
        """Queue a node, and its pods if its kubelet starts or stops."""
        if NODE in self._stages:
            yield StagedObject(NODE, change.last.key)
        before, after = (
            entry is not None and has_kubelet(entry) for entry in (change.old, change.new)
        )
        if before != after:
            for entry in self._pods_by_node.get(change.last.key.name):
                yield StagedObject(POD, entry.key)

    # The reconcile.

    async def reconcile(self, item: StagedObject) -> None:
        """Choose a stage for an object, wait until it is due, or carry out its steps."""
        stages, watch = self._stages.get(item.kind), self._objects.get(item.kind)
        entry = watch.get(item.key) if watch is not None else None
        if stages is None or entry is None or not self._is_managed(item.kind, entry):
            self._plans.pop(item, None)
            return
        obj, now = self._object_of(item.kind, entry), self.clock.now()
        plan = self._plans.get(item)
        if plan is None or (plan.revision, plan.stages) != (entry.revision, stages):
            plan = self._plans[item] = self._plan(entry, obj, stages, plan)
        if plan.stage is None or plan.is_done:
            return
        if plan.due > now:
            self.queue.add_after(item, plan.due - now)
            return
        plan.plays = plan.plays + 1 if plan.second == int(now) else 1
        plan.second = int(now)
        await self._play(obj, plan.stage, plan)

    def _is_managed(self, kind: GroupVersionKind, entry: Entry) -> bool:
        """Report whether Stages may change an object: a node that is simulated, a pod on such a
        node, and any object of another kind."""
        if kind == NODE:
            return has_kubelet(entry)
        if kind != POD:
            return True
        node = self._find_node(node_of(entry.tree()))
        return node is not None and has_kubelet(node)

    def _find_node(self, name: str) -> Entry | None:
        return self._objects[NODE].get(ObjectKey("", name)) if name else None

    def _object_of(self, kind: GroupVersionKind, entry: Entry) -> Tree:
        """Return an object in the version that its Stages are for."""
        return self.server.scheme.convert(entry.tree(), kind.group_version)

    def _plan(self, entry: Entry, obj: Tree, stages: tuple[Stage, ...], last: Plan | None) -> Plan:
        """Return what happens to an object next."""
        now = self.clock.now()
        plan = Plan(entry.revision, stages, choose(stages, obj, now, self._rng), due=now)
        if plan.stage is not None:
            plan.due += delay_of(plan.stage, obj, now, self._rng)
        if last is not None:
            plan.second, plan.plays = last.second, last.plays
            if plan.second == int(now) and plan.plays >= _MOST_PLAYS:
                plan.due = max(plan.due, plan.second + 1.0)
        return plan

    async def _play(self, obj: Tree, stage: Stage, plan: Plan) -> None:
        """Carry out the steps that are left. What can never succeed is reported in an event about
        the object, and ends the stage. Raises StatusError if the server is busy."""
        try:
            while plan.next_step < len(stage.steps):
                await self._do_step(obj, stage, plan.next_step)
                plan.next_step += 1
        except StatusError as error:
            if error.code in _RETRIABLE:
                raise
            if error.reason != "NotFound":
                await self._report(obj, stage, str(error))
        except TemplateError as error:
            await self._report(obj, stage, str(error))
        plan.is_done = True

    async def _report(self, obj: Tree, stage: Stage, problem: str) -> None:
        _log.info("Stage %s: %s: %s", stage.name, name_of(obj), problem)
        await self._events.warn(obj, "StageFailed", f"Stage {stage.name}: {problem}")

    # The steps.

    async def _do_step(self, obj: Tree, stage: Stage, index: int) -> None:
        """Carry out one step; after a deletion, only its event. Raises StatusError,
        TemplateError."""
        is_deleted = any(step.delete for step in stage.steps[:index])
        default_type = STRATEGIC_MERGE_PATCH if stage.kind in (NODE, POD) else MERGE_PATCH
        for action in actions_of(stage.steps[index], obj, self._renderer.render, default_type):
            if not is_deleted or isinstance(action, ReportEvent):
                await self._do(obj, stage, action)

    async def _do(self, obj: Tree, stage: Stage, action: Action) -> None:
        match action:
            case ReportEvent("Warning", reason, message):
                await self._events.warn(obj, reason, message)
            case ReportEvent(_, reason, message):
                await self._events.note(obj, reason, message)
            case DeleteObject():
                objects = self._client(stage.kind, namespace_of(obj))
                await delete_object(
                    objects.shared, name_of(obj), uid=uid_of(obj), gracePeriodSeconds=0
                )
            case PatchObject():
                objects = self._client(stage.kind, namespace_of(obj), action.user)
                await objects.shared.patch(
                    name_of(obj), action.patch, type=action.type, subresource=action.subresource
                )
            case ApplyObject():
                await self._apply(action, namespace_of(obj))

    async def _apply(self, action: ApplyObject, namespace: str) -> None:
        """Create an object, or patch it if it exists. Raises StatusError, TemplateError."""
        obj = action.obj
        try:
            kind = kind_of(obj)
            is_namespaced = self.server.scheme.resource_of(kind).namespaced
        except (NotRegistered, ValueError) as error:
            raise TemplateError(str(error)) from None
        if is_namespaced:
            namespace = value_at(obj, "metadata", "namespace") or namespace
            obj = obj | {"metadata": metadata_of(obj) | {"namespace": namespace}}
        objects = self._client(kind, namespace if is_namespaced else "", action.user)
        if not action.subresource:
            try:
                await objects.shared.create(obj)
                return
            except StatusError as error:
                if error.reason != "AlreadyExists":
                    raise
        if action.type == APPLY:
            await objects.shared.apply(
                obj, manager=_MANAGER, subresource=action.subresource, force=1
            )
        else:
            await objects.shared.patch(
                name_of(obj), obj, type=action.type, subresource=action.subresource
            )

    def _client(self, kind: GroupVersionKind, namespace: str, user: str = "") -> ResourceClient:
        """Return the client of a kind, with the rights of a user if one is named."""
        version, resource = kind.api_version, self.server.scheme.resource_of(kind).name
        if not user:
            return self.context.resource(version, resource, namespace=namespace)
        client = self.server.client(
            User(name=user, groups=(AUTHENTICATED,)), user_agent=_MANAGER, authorize=True
        )
        return client.resource(version, resource, namespace=namespace)
