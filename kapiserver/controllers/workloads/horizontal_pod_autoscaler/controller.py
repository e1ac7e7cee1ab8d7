"""The controller of HorizontalPodAutoscalers: it carries out the plans of `plan`.

Each autoscaler is reconciled when its spec changes, and every 15 seconds of the server's clock
(`--horizontal-pod-autoscaler-sync-period`), also after an error. Mirrors
pkg/controller/podautoscaler.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

from kapiserver.api.accessors import copy_tree, generation_of, name_of, uid_of
from kapiserver.api.errors import BadObject
from kapiserver.api.group import CORE, GroupVersion
from kapiserver.api.quantity import parse
from kapiserver.api.resource_client import ResourceClient, StatusError
from kapiserver.api.selectors import Selection
from kapiserver.api.selectors import parse as parse_selector
from kapiserver.api.types import Tree
from kapiserver.apiserver.controller_metrics import AutoscalerLabels
from kapiserver.controllers.loop.context import ControllerContext
from kapiserver.controllers.loop.controller import Controller
from kapiserver.controllers.loop.event_recorder import EventRecorder
from kapiserver.controllers.loop.writing import UPDATE_ATTEMPTS, update_object
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.metric_sources import Reading
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.metrics_client import MetricsClient
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.plan import (
    Observation,
    Plan,
    SelectorProblem,
    needs_metrics,
    not_rescaled,
    plan_autoscaler,
    reference,
    rescaled,
    without_scale,
)
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.replica_calculator import (
    ScaledPods,
    Tolerances,
)
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.scaling_rules import ScalingHistory
from kapiserver.storage.cache.entry import Entry, ObjectKey
from kapiserver.storage.objects.informer import ObjectChange

_AUTOSCALING = GroupVersion("autoscaling", "v2")


class ScaleError(Exception):
    """The target of an autoscaler has no Scale. The message is the cause; `context` begins the text
    of the reconcile's error."""

    def __init__(self, cause: str, context: str) -> None:
        super().__init__(cause)
        self.context = context


class ScalingError(Exception):
    """An autoscaler could not be reconciled, or not by all of its metrics."""


class HorizontalPodAutoscalerController(Controller[ObjectKey]):
    """Scales the targets of HorizontalPodAutoscalers by their metrics."""

    workers = 5

    def __init__(self, context: ControllerContext) -> None:
        self._settings = context.server.config.controller_manager
        period = self._settings.horizontal_pod_autoscaler_sync_period
        self.min_retry_seconds = self.max_retry_seconds = period
        super().__init__(context)
        self._events = EventRecorder(context, "horizontal-pod-autoscaler")
        self._measured = context.server.metrics.controllers.autoscalers
        self._metrics = MetricsClient(context, self._resource_names)
        self._histories: dict[ObjectKey, ScalingHistory] = {}
        self._selections: dict[ObjectKey, Selection] = {}
        """What each autoscaler selects, to find pods that belong to more than one."""

    def set_up(self) -> None:
        """Watch autoscalers and pods."""
        self._autoscalers = self.watch(_AUTOSCALING, "horizontalpodautoscalers", self._on_change)
        self._pods = self.watch(CORE, "pods")

    def _on_change(self, change: ObjectChange) -> Iterable[ObjectKey]:
        """Queue an autoscaler whose spec has changed. Its status changes with each reconcile."""
        key, old, new = change.last.key, change.old, change.new
        self._measured.autoscalers.add("", (old is None) - (new is None))
        if old is not None and new is not None and _generation(old) == _generation(new):
            self._add_later(key)
            return ()
        return (key,)

    async def reconcile(self, key: ObjectKey) -> None:
        """Scale the target of an autoscaler, and write its status."""
        entry = self._autoscalers.lister.get(key)
        if entry is None:
            self._histories.pop(key, None)
            self._selections.pop(key, None)
            self._measured.desired_replicas.values.pop((key.namespace, key.name), None)
            return
        autoscaler, started = entry.tree(), time.perf_counter()
        plan = await self._plan(key, autoscaler)
        await self._finish(key, autoscaler, plan)
        self._measure(key, plan, time.perf_counter() - started)
        if plan.error:
            raise ScalingError(plan.error)
        self._add_later(key)

    def _add_later(self, key: ObjectKey) -> None:
        seconds = self._settings.horizontal_pod_autoscaler_sync_period
        self.queue.add_after(key, seconds, is_regular=True)

    async def _plan(self, key: ObjectKey, autoscaler: Tree) -> Plan:
        """Plan, and scale the target."""
        history, now = self._histories.get(key, ScalingHistory()), self.clock.now()
        try:
            target, scale = await self._target(key.namespace, autoscaler)
        except ScaleError as error:
            plan = without_scale(autoscaler, f"{error.context}: {error}", str(error), now)
            plan.history = history
            return plan
        observed = await self._observe(key, autoscaler, scale)
        plan = plan_autoscaler(autoscaler, observed, history, now)
        if plan.replicas is not None:
            try:
                await _rescale(target, scale, plan.replicas)
                rescaled(plan, autoscaler, scale)
            except StatusError as error:
                not_rescaled(plan, autoscaler, str(error))
        return plan

    def _measure(self, key: ObjectKey, plan: Plan, seconds: float) -> None:
        labels = AutoscalerLabels(plan.action, "internal" if plan.error else "none")
        self._measured.reconcile_seconds.observe(labels, seconds)
        desired = plan.status.get("desiredReplicas")
        if desired is not None:
            self._measured.desired_replicas.set((key.namespace, key.name), desired)

    # The target.

    async def _target(self, namespace: str, autoscaler: Tree) -> tuple[ResourceClient, Tree]:
        """Return the client of the target's resource, and its Scale. Raises ScaleError."""
        target = autoscaler["spec"]["scaleTargetRef"]
        kind, text = target["kind"], target.get("apiVersion") or ""
        try:
            group = GroupVersion.parse(text).group
        except ValueError as error:
            context = "invalid API version in scale target reference"
            raise ScaleError(str(error), context) from error
        names = self._resource_names(group, kind)
        if not names:
            context = "unable to determine resource for scale target reference"
            raise ScaleError(f'no matches for kind "{kind}" in group "{group}"', context)
        first_error: StatusError | None = None
        for resource in self.server.scheme.resources(group):
            client = self.context.served_resource(resource, namespace=namespace)
            if resource.name not in names or client is None:
                continue
            try:
                return client, await client.get(target["name"], subresource="scale")
            except StatusError as error:
                first_error = first_error or error
        context = f"failed to query scale subresource for {reference(autoscaler)}"
        raise ScaleError(str(first_error or "unrecognized resource"), context)

    def _resource_names(self, group: str, kind: str) -> Sequence[str]:
        return [
            resource.name
            for resource in self.server.scheme.resources(group)
            if resource.kind == kind
        ]

    # The pods and metrics.

    async def _observe(self, key: ObjectKey, autoscaler: Tree, scale: Tree) -> Observation:
        """Read the pods and metrics, if they decide."""
        pods: Sequence[Entry] = ()
        readings: Sequence[Reading] = ()
        problem: SelectorProblem | None = None
        if needs_metrics(autoscaler, scale):
            selector = (scale.get("status") or {}).get("selector") or ""
            pods, problem = self._select(key, selector)
            if problem is None:
                metrics = autoscaler["spec"].get("metrics") or ()
                readings = [
                    await self._metrics.read(key.namespace, metric, selector) for metric in metrics
                ]
        return Observation(
            scale=scale,
            scaled=self._scaled(autoscaler, scale, [pod.tree() for pod in pods]),
            readings=readings,
            selector_problem=problem,
            downscale_window=self._settings.horizontal_pod_autoscaler_downscale_stabilization,
        )

    def _scaled(self, autoscaler: Tree, scale: Tree, pods: Sequence[Tree]) -> ScaledPods:
        settings = self._settings
        return ScaledPods(
            pods=pods,
            spec_replicas=(scale.get("spec") or {}).get("replicas") or 0,
            status_replicas=(scale.get("status") or {}).get("replicas") or 0,
            tolerances=_tolerances(autoscaler, settings.horizontal_pod_autoscaler_tolerance),
            cpu_initialization_seconds=(
                settings.horizontal_pod_autoscaler_cpu_initialization_period
            ),
            initial_readiness_seconds=settings.horizontal_pod_autoscaler_initial_readiness_delay,
            now=self.clock.now(),
        )

    def _select(self, key: ObjectKey, text: str) -> tuple[Sequence[Entry], SelectorProblem | None]:
        """Return the pods of a selector, or why it cannot be used."""
        if not text:
            message = "the HPA target's scale is missing a selector"
            return (), SelectorProblem(
                "SelectorRequired", "selector is required", "InvalidSelector", message
            )
        try:
            selection = parse_selector(text, "")
        except BadObject as error:
            message = (
                f"couldn't convert selector into a corresponding internal selector object: {error}"
            )
            return (), SelectorProblem("InvalidSelector", message, "InvalidSelector", message)
        self._selections[key] = selection
        pods = self._pods.lister.select(selection, key.namespace)
        rivals = self._selecting(key.namespace, pods)
        if len(rivals) > 1:
            names = " ".join(f"{{{rival.name} {rival.namespace}}}" for rival in rivals[:2])
            message = (
                f"pods by selector {text} are controlled by more than one HPA (e.g. [{names}])"
            )
            return (), SelectorProblem("AmbiguousSelector", message, "AmbiguousSelector", message)
        return pods, None

    def _selecting(self, namespace: str, pods: Sequence[Entry]) -> list[ObjectKey]:
        """Return the autoscalers of a namespace that select one of the pods."""
        return [
            key
            for key, selection in self._selections.items()
            if key.namespace == namespace and any(pod.is_selected(selection) for pod in pods)
        ]

    # Writes.

    async def _finish(self, key: ObjectKey, autoscaler: Tree, plan: Plan) -> None:
        """Keep the history, record the events and write the status of a plan. Raises
        StatusError."""
        self._histories[key] = plan.history
        for event in plan.events:
            record = self._events.warn if event.type == "Warning" else self._events.note
            await record(autoscaler, event.reason, event.message)
        if plan.status == (autoscaler.get("status") or {}):
            return
        autoscalers = self.context.resource(
            str(_AUTOSCALING), "horizontalpodautoscalers", namespace=key.namespace
        )
        try:
            await update_object(
                autoscalers,
                name_of(autoscaler),
                lambda current: current | {"status": copy_tree(plan.status)},
                subresource="status",
                uid=uid_of(autoscaler),
            )
        except StatusError as error:
            await self._events.warn(autoscaler, "FailedUpdateStatus", str(error))
            raise


async def _rescale(target: ResourceClient, scale: Tree, replicas: int) -> None:
    """Set the replicas of a Scale; read it again after a conflict. Raises StatusError."""
    for attempt in range(1, UPDATE_ATTEMPTS + 1):
        try:
            await target.update(scale | {"spec": {"replicas": replicas}}, subresource="scale")
            return
        except StatusError as error:
            if error.reason != "Conflict" or attempt == UPDATE_ATTEMPTS:
                raise
            scale = await target.get(name_of(scale), subresource="scale")


def _generation(entry: Entry) -> int:
    return generation_of(entry.tree())


def _tolerances(autoscaler: Tree, default: float) -> Tolerances:
    behavior = autoscaler["spec"].get("behavior") or {}
    down, up = (
        (behavior.get(direction) or {}).get("tolerance") for direction in ("scaleDown", "scaleUp")
    )
    return Tolerances(
        *(default if text is None else float(parse(text).decimal) for text in (down, up))
    )
