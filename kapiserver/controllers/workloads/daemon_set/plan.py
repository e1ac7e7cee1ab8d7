"""The core of DaemonSets: which pods to create and delete, and the status.

First each eligible node gets its pod, and pods that have ended or are on other nodes are deleted.
If nothing is left to do, a rolling update replaces pods of an old revision:

- Without surge it deletes old pods, those that are not available first, as long as no more than
  `maxUnavailable` nodes are without an available pod.
- With surge it creates new pods beside old ones, up to `maxSurge`, and deletes an old pod when the
  new one is available.

Mirrors pkg/controller/daemon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

from kapiserver.api.accessors import is_terminating, metadata_of, name_of, namespace_of, value_at
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.daemon_set.daemon_pods import (
    Eligibility,
    eligibility_of,
    is_updated,
    target_node_of,
)
from kapiserver.controllers.workloads.planned_event import PlannedEvent
from kapiserver.controllers.workloads.pods import (
    is_available,
    is_finished,
    is_ready,
    node_of,
    phase_of,
    seconds_to_next_available,
)
from kapiserver.controllers.workloads.rounding import scaled_value

BURST = 250
"""The pods that one reconcile creates or deletes at most."""
_FIRST_DELAY = 1.0
_MAX_DELAY = 900.0
_INELIGIBLE = Eligibility(should_run=False, may_continue=False)


class Delay(Struct, frozen=True):
    """How long a node waits after a failed pod was deleted at `since`, before the next is."""

    seconds: float
    since: float


class DaemonSetPlan(Struct):
    """The actions for one DaemonSet.

    create         the names of nodes that get a pod
    delete         the pods to delete
    delays         the delays of nodes on which pods have failed, by name
    requeue_after  seconds until the next reconcile, or None
    """

    create: list[str] = field(default_factory=list)
    delete: list[Tree] = field(default_factory=list)
    events: list[PlannedEvent] = field(default_factory=list)
    delays: dict[str, Delay] = field(default_factory=dict)
    status: Tree = field(default_factory=dict)
    requeue_after: float | None = None


def plan_daemon_set(
    owner: Tree,
    nodes: Sequence[Tree],
    pods: Sequence[Tree],
    text: str,
    delays: Mapping[str, Delay],
    now: float,
) -> DaemonSetPlan:
    """Return the next actions.

    pods    the pods that the DaemonSet controls
    text    the hash of the revision with its template
    delays  the delays of the plan before
    """
    return _Planner(owner, nodes, pods, text, now).plan(delays)


def max_unavailable(owner: Tree, nodes: int) -> int:
    """Return how many of the nodes may be without an available pod during an update; at least 1
    without surge."""
    count = _strategy_count(owner, "maxUnavailable", nodes)
    return count or (0 if max_surge(owner, nodes) else 1)


def max_surge(owner: Tree, nodes: int) -> int:
    """Return on how many of the nodes an update may run two pods."""
    return _strategy_count(owner, "maxSurge", nodes)


def _strategy_count(owner: Tree, name: str, nodes: int) -> int:
    if value_at(owner, "spec", "updateStrategy", "type") == "OnDelete":
        return 0
    value = value_at(owner, "spec", "updateStrategy", "rollingUpdate", name)
    return scaled_value(value, nodes, round_up=True)


def _age_key(pod: Tree) -> tuple[bool, str, str]:
    """Order pods: bound ones first, then by age."""
    return not node_of(pod), metadata_of(pod).get("creationTimestamp") or "", name_of(pod)


class _Planner:
    """Plans the actions for one state of a DaemonSet."""

    def __init__(
        self, owner: Tree, nodes: Sequence[Tree], pods: Sequence[Tree], text: str, now: float
    ) -> None:
        self._owner, self._text, self._now = owner, text, now
        self._min_ready = value_at(owner, "spec", "minReadySeconds") or 0
        eligibility = eligibility_of(owner)
        self._nodes = {name_of(node): eligibility(node) for node in nodes}
        self._desired = sum(node.should_run for node in self._nodes.values())
        self._pods: dict[str, list[Tree]] = {}
        for pod in sorted(pods, key=_age_key):
            node = target_node_of(pod)
            if node and not (is_finished(pod) and is_terminating(pod)):
                self._pods.setdefault(node, []).append(pod)
        self._plan = DaemonSetPlan(
            requeue_after=seconds_to_next_available(pods, self._min_ready, now)
        )

    def plan(self, delays: Mapping[str, Delay]) -> DaemonSetPlan:
        """Return the actions and the status."""
        plan = self._plan
        plan.delays = {
            node: delay for node, delay in delays.items() if not self._is_forgotten(delay)
        }
        for node, eligibility in self._nodes.items():
            self._plan_node(node, eligibility)
        for node, pods in self._pods.items():
            if node not in self._nodes:  # nobody else deletes a pod that was never bound
                plan.delete += [pod for pod in pods if not node_of(pod)]
        strategy = value_at(self._owner, "spec", "updateStrategy", "type") or "RollingUpdate"
        if not plan.create and not plan.delete and strategy == "RollingUpdate":
            if max_surge(self._owner, self._desired):
                self._surge()
            else:
                self._replace()
        del plan.create[BURST:], plan.delete[BURST:]
        plan.status = self._status()
        return plan

    # One pod on each eligible node.

    def _plan_node(self, node: str, eligibility: Eligibility) -> None:
        pods = self._pods.get(node)
        if pods is None:
            if eligibility.should_run:
                self._plan.create.append(node)
            return
        present = [pod for pod in pods if not is_terminating(pod)]
        if not eligibility.may_continue:
            self._plan.delete += present
            return
        for pod in present:
            if is_finished(pod):
                self._plan_ended(node, pod)
        running = [pod for pod in present if not is_finished(pod)]
        if not max_surge(self._owner, 1):
            self._plan.delete += running[1:]
        elif not running and eligibility.should_run:
            self._plan.create.append(node)
        else:
            self._plan_surplus(running)

    def _plan_ended(self, node: str, pod: Tree) -> None:
        """Delete a pod that has ended; a failed one only when the delay is over."""
        name = f"{namespace_of(pod)}/{name_of(pod)}"
        if phase_of(pod) == "Succeeded":
            message = f"Found succeeded daemon pod {name} on node {node}, will try to delete it"
            self._plan.events.append(PlannedEvent("SucceededDaemonPod", message))
            self._plan.delete.append(pod)
            return
        delay = self._plan.delays.get(node)
        if delay is not None and self._now < delay.since + delay.seconds:
            self._requeue_after(delay.since + delay.seconds - self._now)
            return
        message = f"Found failed daemon pod {name} on node {node}, will try to kill it"
        self._plan.events.append(PlannedEvent("FailedDaemonPod", message, "Warning"))
        self._plan.delete.append(pod)
        seconds = _FIRST_DELAY if delay is None else min(2 * delay.seconds, _MAX_DELAY)
        self._plan.delays[node] = Delay(seconds, self._now)

    def _is_forgotten(self, delay: Delay) -> bool:
        return self._now > delay.since + 2 * _MAX_DELAY

    def _requeue_after(self, seconds: float) -> None:
        before = self._plan.requeue_after
        self._plan.requeue_after = seconds if before is None else min(before, seconds)

    def _plan_surplus(self, running: Sequence[Tree]) -> None:
        """Keep the oldest new pod and, as long as it is not available, the oldest old one."""
        new = [pod for pod in running if self._is_updated(pod)]
        old = [pod for pod in running if not self._is_updated(pod)]
        self._plan.delete += new[1:] + old[1:]
        if new and old and (not is_ready(old[0]) or self._is_available(new[0])):
            self._plan.delete.append(old[0])

    # The rolling update.

    def _nodes_with_pods(self) -> list[tuple[str, Tree | None, Tree | None, bool]]:
        """Return the nodes that have or should have pods, each with its new and its old pod, and
        whether there are no further ones."""
        eligible_nodes = (
            name for name, eligibility in self._nodes.items() if eligibility.should_run
        )
        result = []
        for node in sorted({*self._pods, *eligible_nodes}):
            pods = [pod for pod in self._pods.get(node, ()) if not is_terminating(pod)]
            new = [pod for pod in pods if self._is_updated(pod)]
            old = [pod for pod in pods if not self._is_updated(pod)]
            is_plain = len(new) <= 1 and len(old) <= 1
            result.append((node, next(iter(new), None), next(iter(old), None), is_plain))
        return result

    def _replace(self) -> None:
        """Delete old pods, so that the next reconcile creates new ones."""
        unavailable, broken, working = 0, [], []
        for _, new, old, is_plain in self._nodes_with_pods():
            if not is_plain or (new is None) == (old is None):
                unavailable += 1
            elif old is None:
                unavailable += not self._is_available(new)
            elif self._is_available(old):
                working.append(old)
            else:
                broken.append(old)
                unavailable += 1
        budget = max_unavailable(self._owner, self._desired) - unavailable
        self._plan.delete += broken + working[: max(0, budget)]

    def _surge(self) -> None:
        """Create new pods beside old ones, and delete old pods that have an available new one."""
        surging, available = 0, 0
        leaving, allowed, candidates = [], [], []
        for node, new, old, is_plain in self._nodes_with_pods():
            if not is_plain:
                surging += 1
                continue
            available += self._is_available(old if old is not None else new)
            if old is None:
                continue
            should_run = self._nodes.get(node, _INELIGIBLE).should_run
            if new is not None and self._is_available(new):
                self._plan.delete.append(old)
            elif new is not None:
                surging += 1
            elif not self._is_available(old):
                if should_run:
                    allowed.append(node)
                else:
                    self._plan.delete.append(old)
            elif should_run:
                candidates.append(node)
            else:
                leaving.append(old)
        # A pod on a node that is not eligible any more stays until enough others are available.
        self._plan.delete += leaving[: max(0, available - self._desired)]
        budget = max_surge(self._owner, self._desired) - surging
        self._plan.create += allowed + candidates[: max(0, budget)]

    # The status.

    def _status(self) -> Tree:
        eligible = [name for name, eligibility in self._nodes.items() if eligibility.should_run]
        oldest = [self._pods[name][0] for name in eligible if name in self._pods]
        available = sum(map(self._is_available, oldest))
        status: Tree = {
            "observedGeneration": metadata_of(self._owner).get("generation") or 0,
            "updatedNumberScheduled": sum(map(self._is_updated, oldest)),
            "numberAvailable": available,
            "numberUnavailable": self._desired - available,
            "collisionCount": value_at(self._owner, "status", "collisionCount"),
            "conditions": value_at(self._owner, "status", "conditions"),
        }
        return {name: value for name, value in status.items() if value} | {
            "currentNumberScheduled": len(oldest),
            "numberMisscheduled": sum(
                name in self._pods
                for name, eligibility in self._nodes.items()
                if not eligibility.should_run
            ),
            "desiredNumberScheduled": self._desired,
            "numberReady": sum(map(is_ready, oldest)),
        }

    # What the phases ask.

    def _is_available(self, pod: Tree | None) -> bool:
        return pod is not None and is_available(pod, self._min_ready, self._now)

    def _is_updated(self, pod: Tree) -> bool:
        return is_updated(self._owner, pod, self._text)
