"""Plans a reconcile of an autoscaler: the replicas of its target, its status and its events.

    the target has          replicas
    none                    stay, unless this controller scaled to zero: then as the metrics propose
    more than maxReplicas   maxReplicas
    fewer than minReplicas  minReplicas
    other                   the most that a metric proposes, stabilized and limited

The functions are pure: `needs_metrics` says whether metrics are to be read, and `plan_autoscaler`
returns the plan. The caller scales the target, and finishes the plan with `rescaled` or
`not_rescaled`. `without_scale` is the plan if the target has no scale. Mirrors reconcileAutoscaler
of pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from msgspec import Struct, field

from kapiserver.api.accessors import generation_of, has_condition, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.metric_sources import (
    Failure,
    Reading,
    metric_status,
    propose,
)
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.replica_calculator import (
    ScaledPods,
)
from kapiserver.controllers.workloads.horizontal_pod_autoscaler.scaling_rules import (
    Bounds,
    ScalingHistory,
    limited,
    stabilized,
)
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.storage.objects.lifecycle import timestamp

_ABLE, _ACTIVE, _LIMITED, _ZERO = "AbleToScale", "ScalingActive", "ScalingLimited", "ScaledToZero"
_BELOW_MINIMUM = "Current number of replicas below Spec.MinReplicas"
_ABOVE_MAXIMUM = "Current number of replicas above Spec.MaxReplicas"


class SelectorProblem(NamedTuple):
    """Why the selector of the target's scale cannot be used: the reasons and messages of the event
    and of the condition."""

    event: str
    error: str
    condition: str
    message: str


class Observation(Struct, frozen=True, kw_only=True):
    """What an autoscaler finds.

    scale             the Scale of its target
    scaled            the pods that the Scale selects
    readings          what the metrics read, in the order of the spec; empty if they are not needed
    selector_problem  why the pods are not known
    downscale_window  the seconds of the window for scaling down, unless the autoscaler has one
    """

    scale: Tree
    scaled: ScaledPods
    readings: Sequence[Reading] = ()
    selector_problem: SelectorProblem | None = None
    downscale_window: float


class Plan(Struct, kw_only=True):
    """What to do about an autoscaler.

    status    the status to write; conditions are added to it
    replicas  the replicas to give to the target; None if it stays as it is
    reason    why the target is scaled
    action    `scale_up` or `scale_down` if the target has been scaled, else `none`
    events    events to record, in order
    history   the history to keep
    error     why the reconcile fails in the end, although the plan is carried out; "" if not
    """

    now: float
    status: Tree
    replicas: int | None = None
    reason: str = ""
    action: str = "none"
    events: list[PlannedEvent] = field(default_factory=list)
    history: ScalingHistory = ScalingHistory()
    error: str = ""

    def warn(self, reason: str, message: str) -> None:
        """Add a warning."""
        self.events.append(PlannedEvent(reason, message, "Warning"))

    def set_condition(self, type_: str, holds: bool, reason: str, message: str) -> None:
        """Set a condition in its place. Its time changes only with its status."""
        conditions = self.status.setdefault("conditions", [])
        condition = find_condition(conditions, type_)
        if condition is None:
            condition = {"type": type_}
            conditions.append(condition)
        status = "True" if holds else "False"
        if condition.get("status") != status:
            condition["lastTransitionTime"] = timestamp(self.now)
        condition |= {"status": status, "reason": reason, "message": message}


def current_replicas(scale: Tree) -> int:
    """Return the replicas that the target of a Scale asks for."""
    return value_at(scale, "spec", "replicas") or 0


def needs_metrics(autoscaler: Tree, scale: Tree) -> bool:
    """Report whether the metrics decide about the replicas."""
    current, spec = current_replicas(scale), autoscaler["spec"]
    if current:
        return _minimum(spec) <= current <= int(spec["maxReplicas"])
    was_scaled_to_zero = has_condition(autoscaler, _ZERO)
    return was_scaled_to_zero and (bool(_minimum(spec)) or _can_scale_to_zero(spec))


def _minimum(spec: Tree) -> int:
    minimum = spec.get("minReplicas")
    return 1 if minimum is None else minimum


def _can_scale_to_zero(spec: Tree) -> bool:
    """Report whether a metric has values even if there is no pod."""
    return any(metric["type"] in ("Object", "External") for metric in spec.get("metrics") or ())


def without_scale(autoscaler: Tree, error: str, cause: str, now: float) -> Plan:
    """Return the plan for an autoscaler whose target has no Scale.

    error  the text of the error of the reconcile
    cause  why there is no Scale
    """
    plan = _begin(autoscaler, now)
    plan.warn("FailedGetScale", cause)
    message = f"the HPA controller was unable to get the target's current scale: {cause}"
    plan.set_condition(_ABLE, False, "FailedGetScale", message)
    plan.error = error
    return plan


def _begin(autoscaler: Tree, now: float) -> Plan:
    """Return a plan that changes nothing."""
    status = dict(autoscaler.get("status") or {})
    status["conditions"] = [dict(condition) for condition in status.get("conditions") or ()]
    return Plan(now=now, status=status)


def plan_autoscaler(
    autoscaler: Tree, observed: Observation, history: ScalingHistory, now: float
) -> Plan:
    """Return the plan for an autoscaler whose target has a Scale."""
    plan, spec = _begin(autoscaler, now), autoscaler["spec"]
    current = current_replicas(observed.scale)
    bounds = Bounds(current, _minimum(spec), spec["maxReplicas"])
    plan.history = history.begun(current, now)
    message = "the HPA controller was able to get the target's current scale"
    plan.set_condition(_ABLE, True, "SucceededGetScale", message)
    if needs_metrics(autoscaler, observed.scale):
        _plan_by_metrics(plan, autoscaler, observed, bounds)
        return plan
    if current > bounds.maximum:
        plan.replicas, plan.reason = bounds.maximum, _ABOVE_MAXIMUM
    elif current:
        plan.replicas, plan.reason = bounds.minimum, _BELOW_MINIMUM
    else:
        message = "scaling is disabled since the replica count of the target is zero"
        plan.set_condition(_ACTIVE, False, "ScalingDisabled", message)
    desired = current if plan.replicas is None else plan.replicas
    _set_status(plan, autoscaler, current, desired, None)
    return plan


class _Metrics(NamedTuple):
    """What the metrics of an autoscaler propose: the replicas, the name of the metric that decides,
    the status of each, and an error, "" if all could be read. The replicas are None if the metrics
    must not decide."""

    replicas: int | None
    name: str
    statuses: list[Tree] | None
    error: str


def _plan_by_metrics(plan: Plan, autoscaler: Tree, observed: Observation, bounds: Bounds) -> None:
    metrics = _proposals(plan, autoscaler, observed)
    if metrics.replicas is None:
        desired = value_at(autoscaler, "status", "desiredReplicas") or 0
        _set_status(plan, autoscaler, bounds.current, desired, metrics.statuses)
        plan.warn("FailedComputeMetricsReplicas", metrics.error)
        plan.error = (
            "failed to compute desired number of replicas based on listed metrics for "
            f"{reference(autoscaler)}: {metrics.error}"
        )
        return
    plan.error = metrics.error
    reason = ""
    if metrics.replicas > bounds.current:
        reason = f"{metrics.name} above target"
    elif metrics.replicas < bounds.current:
        reason = "All metrics below target"
    desired = _normalized(plan, autoscaler, observed, bounds, metrics.replicas)
    if not bounds.current and desired < bounds.minimum:
        desired, reason = bounds.minimum, reason or _BELOW_MINIMUM
    if desired != bounds.current:
        plan.replicas, plan.reason = desired, reason
    _set_status(plan, autoscaler, bounds.current, desired, metrics.statuses)


def _proposals(plan: Plan, autoscaler: Tree, observed: Observation) -> _Metrics:
    """Return what the metrics propose. They must not decide if none can be read, or if one cannot
    be read and the others would scale down."""
    problem = observed.selector_problem
    if problem is not None:
        plan.warn(problem.event, problem.error)
        plan.set_condition(_ACTIVE, False, problem.condition, problem.message)
        return _Metrics(None, "", None, problem.error)
    namespace = autoscaler["metadata"]["namespace"]
    specs: Sequence[Tree] = autoscaler["spec"].get("metrics") or ()
    replicas, name = 0, ""
    statuses, failures = [], []
    for metric, reading in zip(specs, observed.readings, strict=True):
        outcome = propose(namespace, metric, reading, observed.scaled)
        statuses.append(metric_status(metric, outcome))
        if isinstance(outcome, Failure):
            plan.warn(outcome.reason, outcome.message)
            failures.append(outcome)
        elif not replicas or outcome.replicas > replicas:
            replicas, name = outcome.replicas, outcome.name
    error = ""
    if failures:
        error = (
            f"invalid metrics ({len(failures)} invalid out of {len(specs)}), first error is: "
            f"{failures[0].error}"
        )
        if len(failures) == len(specs) or replicas < current_replicas(observed.scale):
            message = f"the HPA was unable to compute the replica count: {failures[0].message}"
            plan.set_condition(_ACTIVE, False, failures[0].reason, message)
            return _Metrics(None, "", statuses, error)
    message = f"the HPA was able to successfully calculate a replica count from {name}"
    plan.set_condition(_ACTIVE, True, "ValidMetricFound", message)
    return _Metrics(replicas, name, statuses, error)


def _normalized(
    plan: Plan, autoscaler: Tree, observed: Observation, bounds: Bounds, proposed: int
) -> int:
    """Return the replicas that recent recommendations, the rate of changes and the bounds allow."""
    behavior = autoscaler["spec"].get("behavior")
    stable, plan.history = stabilized(
        plan.history, behavior, bounds, proposed, observed.downscale_window, plan.now
    )
    plan.set_condition(_ABLE, True, stable.reason, stable.message)
    allowed = limited(plan.history, behavior, bounds, stable.replicas, plan.now)
    is_limited = allowed.replicas != stable.replicas
    plan.set_condition(_LIMITED, is_limited, allowed.reason, allowed.message)
    return allowed.replicas


def _set_status(
    plan: Plan, autoscaler: Tree, current: int, desired: int, metrics: list[Tree] | None
) -> None:
    counts = {"currentReplicas": current} if current else {}
    unchanged_fields = ("lastScaleTime", "conditions")
    plan.status = (
        {"observedGeneration": generation_of(autoscaler)}
        | {name: plan.status[name] for name in unchanged_fields if name in plan.status}
        | counts
        | {"desiredReplicas": desired, "currentMetrics": metrics}
    )


def rescaled(plan: Plan, autoscaler: Tree, scale: Tree) -> None:
    """Finish the plan after the target got its replicas."""
    assert plan.replicas is not None
    before, after, spec = current_replicas(scale), plan.replicas, autoscaler["spec"]
    message = f"the HPA controller was able to update the target scale to {after}"
    plan.set_condition(_ABLE, True, "SucceededRescale", message)
    plan.events.append(
        PlannedEvent("SuccessfulRescale", f"New size: {after}; reason: {plan.reason}")
    )
    plan.history = plan.history.scaled(spec.get("behavior"), before, after, plan.now)
    if before and not after and not _minimum(spec) and _can_scale_to_zero(spec):
        message = "the HPA controller scaled the workload to zero"
        plan.set_condition(_ZERO, True, "ScaledToZero", message)
    else:
        message = "the HPA controller did not scale the workload to zero"
        plan.set_condition(_ZERO, False, "NotScaledToZero", message)
    plan.status["lastScaleTime"] = timestamp(plan.now)
    if after != before:
        plan.action = "scale_up" if after > before else "scale_down"


def not_rescaled(plan: Plan, autoscaler: Tree, error: str) -> None:
    """Finish the plan after the target could not get its replicas."""
    plan.warn("FailedRescale", f"New size: {plan.replicas}; reason: {plan.reason}; error: {error}")
    message = f"the HPA controller was unable to update the target scale: {error}"
    plan.set_condition(_ABLE, False, "FailedUpdateScale", message)
    plan.status["desiredReplicas"] = value_at(autoscaler, "status", "desiredReplicas") or 0
    plan.error = f"failed to rescale {reference(autoscaler)}: {error}"


def reference(autoscaler: Tree) -> str:
    """Return the target of an autoscaler as errors name it."""
    target = autoscaler["spec"]["scaleTargetRef"]
    return f"{target['kind']}/{autoscaler['metadata']['namespace']}/{target['name']}"
