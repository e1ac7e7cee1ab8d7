"""Limits a change of replicas by recent recommendations, the rate of changes, and the bounds.

An autoscaler without `spec.behavior` scales down to the highest recommendation of the last minutes,
and up to twice the replicas at most. With a behavior each direction has a stabilization window and
policies, which allow a number of pods, or a percentage, in a number of seconds.

All functions are pure; times are seconds since 1970. Mirrors the functions about normalization in
pkg/controller/podautoscaler/horizontal.go.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from kapiserver.api.types import Tree

_LARGEST_FACTOR, _LARGEST_STEP = 2, 4
"""Without a behavior replicas are doubled at most, or increased to 4."""


class Recommendation(NamedTuple):
    """The replicas that the metrics asked for at a time."""

    replicas: int
    time: float


class ScaleEvent(NamedTuple):
    """By how many replicas the target was scaled at a time; not negative."""

    change: int
    time: float


class ScalingHistory(Struct, frozen=True):
    """What an autoscaler has recommended and done. It is kept in memory, as in Kubernetes."""

    recommendations: tuple[Recommendation, ...] = ()
    ups: tuple[ScaleEvent, ...] = ()
    downs: tuple[ScaleEvent, ...] = ()

    def begun(self, replicas: int, now: float) -> ScalingHistory:
        """Return the history with the present replicas as its first recommendation."""
        if self.recommendations:
            return self
        return replace(self, recommendations=(Recommendation(replicas, now),))

    def recommended(self, replicas: int, now: float, window: float) -> ScalingHistory:
        """Return the history with a recommendation, without those older than a window."""
        recent = (
            recommendation
            for recommendation in self.recommendations
            if recommendation.time >= now - window
        )
        return replace(self, recommendations=(*recent, Recommendation(replicas, now)))

    def scaled(self, behavior: Tree | None, before: int, after: int, now: float) -> ScalingHistory:
        """Return the history with a change of the target, without those that no policy of the
        behavior needs. Without a behavior nothing needs them."""
        if behavior is None:
            return self
        cutoff = now - _longest_period(behavior)
        ups, downs = (
            tuple(event for event in events if event.time >= cutoff)
            for events in (self.ups, self.downs)
        )
        event = ScaleEvent(abs(after - before), now)
        if after > before:
            return replace(self, ups=(*ups, event), downs=downs)
        return replace(self, ups=ups, downs=(*downs, event))


def _longest_period(behavior: Tree) -> float:
    policies = (
        policy
        for direction in ("scaleUp", "scaleDown")
        for policy in (behavior.get(direction) or {}).get("policies") or ()
    )
    return max((policy["periodSeconds"] for policy in policies), default=0)


class Bounds(NamedTuple):
    """The replicas that a target has, and the bounds of the autoscaler."""

    current: int
    minimum: int
    maximum: int


class Verdict(NamedTuple):
    """What one step says: the replicas, and the reason and message of its condition."""

    replicas: int
    reason: str
    message: str


_READY = ("ReadyForNewScale", "recommended size matches current size")
_DOWN_STABILIZED = (
    "ScaleDownStabilized",
    "recent recommendations were higher than current one, "
    "applying the highest recent recommendation",
)
_UP_STABILIZED = (
    "ScaleUpStabilized",
    "recent recommendations were lower than current one, applying the lowest recent recommendation",
)
_WITHIN_RANGE = ("DesiredWithinRange", "the desired count is within the acceptable range")
_TOO_MANY = (
    "TooManyReplicas",
    "the desired replica count is more than the maximum replica count",
)
_TOO_FEW = ("TooFewReplicas", "the desired replica count is less than the minimum replica count")
_UP_LIMIT = (
    "ScaleUpLimit",
    "the desired replica count is increasing faster than the maximum scale rate",
)
_DOWN_LIMIT = (
    "ScaleDownLimit",
    "the desired replica count is decreasing faster than the maximum scale rate",
)


def stabilized(
    history: ScalingHistory,
    behavior: Tree | None,
    bounds: Bounds,
    desired: int,
    downscale_window: float,
    now: float,
) -> tuple[Verdict, ScalingHistory]:
    """Return the replicas that recent recommendations allow, and the history with this one.

    downscale_window  the seconds of the window for scaling down, unless the behavior has one
    """
    if behavior is None:
        cutoff = now - downscale_window
        recent = (
            recommendation.replicas
            for recommendation in history.recommendations
            if recommendation.time >= cutoff
        )
        replicas = max((desired, *recent))
        verdict = Verdict(replicas, *(_READY if replicas == desired else _DOWN_STABILIZED))
        return verdict, history.recommended(desired, now, downscale_window)
    up_window = behavior["scaleUp"]["stabilizationWindowSeconds"]
    down_window = behavior["scaleDown"].get("stabilizationWindowSeconds")
    down_window = downscale_window if down_window is None else down_window
    lowest = min((desired, *_since(history, now - up_window)))
    highest = max((desired, *_since(history, now - down_window)))
    replicas = min(max(bounds.current, lowest), highest)
    direction = _UP_STABILIZED if desired >= bounds.current else _DOWN_STABILIZED
    verdict = Verdict(replicas, *(_READY if replicas == desired else direction))
    return verdict, history.recommended(desired, now, max(up_window, down_window))


def _since(history: ScalingHistory, cutoff: float) -> Iterable[int]:
    return (
        recommendation.replicas
        for recommendation in history.recommendations
        if recommendation.time > cutoff
    )


def limited(
    history: ScalingHistory, behavior: Tree | None, bounds: Bounds, desired: int, now: float
) -> Verdict:
    """Return the replicas that the rate of changes and the bounds allow. The scaling is limited if
    they are not the desired ones."""
    if behavior is None:
        return _limited_by_default(bounds, desired)
    if desired > bounds.current:
        limit = max(up_limit(history, behavior["scaleUp"], bounds.current, now), bounds.current)
        reason = _UP_LIMIT if bounds.maximum > limit else _TOO_MANY
        allowed = min(bounds.maximum, limit)
        if desired > allowed:
            return Verdict(allowed, *reason)
    elif desired < bounds.current:
        limit = min(down_limit(history, behavior["scaleDown"], bounds.current, now), bounds.current)
        reason = _DOWN_LIMIT if bounds.minimum < limit else _TOO_FEW
        allowed = max(bounds.minimum, limit)
        if desired < allowed:
            return Verdict(allowed, *reason)
    return Verdict(desired, *_WITHIN_RANGE)


def _limited_by_default(bounds: Bounds, desired: int) -> Verdict:
    limit = max(_LARGEST_FACTOR * bounds.current, _LARGEST_STEP)
    if desired < bounds.minimum:
        return Verdict(bounds.minimum, *_TOO_FEW)
    if desired > min(bounds.maximum, limit):
        is_limit = bounds.maximum > limit
        return Verdict(min(bounds.maximum, limit), *(_UP_LIMIT if is_limit else _TOO_MANY))
    return Verdict(desired, *_WITHIN_RANGE)


def up_limit(history: ScalingHistory, rules: Tree, current: int, now: float) -> int:
    """Return the most replicas that the policies for scaling up allow."""
    if rules["selectPolicy"] == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules["policies"]:
        start = _replicas_before(history, current, policy["periodSeconds"], now)
        if policy["type"] == "Pods":
            proposals.append(start + policy["value"])
        else:  # rounded up, so that a small percentage of few pods is not nothing
            proposals.append(math.ceil(start * (1 + policy["value"] / 100)))
    return min(proposals) if rules["selectPolicy"] == "Min" else max(proposals)


def down_limit(history: ScalingHistory, rules: Tree, current: int, now: float) -> int:
    """Return the fewest replicas that the policies for scaling down allow."""
    if rules["selectPolicy"] == "Disabled":
        return current
    proposals: list[int] = []
    for policy in rules["policies"]:
        start = _replicas_before(history, current, policy["periodSeconds"], now)
        if policy["type"] == "Pods":
            proposals.append(start - policy["value"])
        else:
            proposals.append(int(start * (1 - policy["value"] / 100)))
    return max(proposals) if rules["selectPolicy"] == "Min" else min(proposals)


def _replicas_before(history: ScalingHistory, current: int, period: float, now: float) -> int:
    """Return the replicas at the start of a period that ends now."""
    added, removed = (
        sum(event.change for event in events if event.time > now - period)
        for events in (history.ups, history.downs)
    )
    return current - added + removed
