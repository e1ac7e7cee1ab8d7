"""Preemption: which pods of lower priority have to end so that a pod fits on a node.

On each node where the end of pods may help, all pods of lower priority are taken off the snapshot;
if the pod fits then, the most important ones are put back one by one as long as it still fits. The
others are the victims. Pods that a PodDisruptionBudget protects are put back first: they are the
victims if nothing else helps. All pods are back on the snapshot afterwards. Mirrors
pkg/scheduler/framework/preemption and the plugin defaultpreemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kapiserver.api.accessors import value_at
from kapiserver.controllers.workloads.conditions import find_condition
from kapiserver.simulation.scheduler.disruption_budgets import violating_pods
from kapiserver.simulation.scheduler.fit_message import fit_message
from kapiserver.simulation.scheduler.plugins.filters import (
    checks_for,
    fits,
    rejection_with_nominated,
)
from kapiserver.simulation.scheduler.plugins.rejection import Rejection
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.simulation.scheduler.snapshot import NodeInfo, Snapshot

_NEVER = "not eligible due to preemptionPolicy=Never."
_TERMINATING = "not eligible due to a terminating pod on the nominated node."
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NO_VICTIMS = ("No preemption victims found for incoming pod",)
PREEMPTION = "PreemptionByScheduler"
"""The reason of the condition DisruptionTarget of a victim."""
_MIN_CANDIDATES = 100
_PRIORITY_OFFSET = 1 << 31
"""Makes all priorities positive, so that fewer victims of a negative priority weigh less."""


class Preemption(NamedTuple):
    """What preemption does for a pod.

    text            what the message of the pod says about it
    nominated_node  the node where the pod will fit, or ""
    victims         the pods on this node that have to end first
    """

    text: str
    nominated_node: str = ""
    victims: Sequence[PodInfo] = ()


class _Candidate(NamedTuple):
    """A node, the victims there, and how many of them violate a budget when they end."""

    node: str
    victims: Sequence[PodInfo]
    violations: int


def preempt(pod: PodInfo, snapshot: Snapshot, rejections: Mapping[str, Rejection]) -> Preemption:
    """Decide which pods have to end for a pod that fits on no node."""
    if pod.spec.get("preemptionPolicy") == "Never":
        return Preemption(_NEVER, pod.nominated_node)
    if _waits_for_victims(pod, snapshot, rejections):
        return Preemption(_TERMINATING, pod.nominated_node)
    nodes = [
        node
        for node in snapshot.nodes
        if (rejection := rejections.get(node.name)) is not None and rejection.resolvable
    ]
    candidates, reasons = _candidates(pod, snapshot, nodes)
    if not candidates:
        hopeless = len(snapshot.nodes) - len(nodes)
        if hopeless:
            reasons[_NOT_HELPFUL] = hopeless
        return Preemption(fit_message(len(snapshot.nodes), reasons))
    best = min(candidates, key=_cost)
    text = f"found a potential placement for pod on node {best.node}"
    return Preemption(f"{text}, preempting {len(best.victims)} victims", best.node, best.victims)


def _candidates(
    pod: PodInfo, snapshot: Snapshot, nodes: Sequence[NodeInfo]
) -> tuple[list[_Candidate], Counter[str]]:
    """Return enough nodes where the end of pods helps, one without violations among them if there
    is one, and why it does not help on others."""
    reasons: Counter[str] = Counter()
    candidates: list[_Candidate] = []
    enough = max(_MIN_CANDIDATES, len(nodes) // 10)
    has_good = False
    for node in nodes:
        result = _victims(pod, snapshot, node)
        if not isinstance(result, _Candidate):
            reasons.update(result)
            continue
        candidates.append(result)
        has_good = has_good or not result.violations
        if has_good and len(candidates) >= enough:
            break
    return candidates, reasons


def _waits_for_victims(
    pod: PodInfo, snapshot: Snapshot, rejections: Mapping[str, Rejection]
) -> bool:
    """Report whether victims of lower priority are ending on the pod's nominated node."""
    node = snapshot.node(pod.nominated_node) if pod.nominated_node else None
    rejection = rejections.get(node.name) if node is not None else None
    if node is None or (rejection is not None and not rejection.resolvable):
        return False
    return any(
        other.is_terminating and other.priority < pod.priority and _is_victim(other)
        for other in node.pods.values()
    )


def _is_victim(pod: PodInfo) -> bool:
    """Report whether the scheduler has ended a pod for another one."""
    target = find_condition(value_at(pod.pod, "status", "conditions") or (), "DisruptionTarget")
    return (
        target is not None and target.get("status") == "True" and target.get("reason") == PREEMPTION
    )


def _victims(pod: PodInfo, snapshot: Snapshot, node: NodeInfo) -> _Candidate | Sequence[str]:
    """Return the victims on one node, or the reasons why there are none."""
    lower = [other for other in node.pods.values() if other.priority < pod.priority]
    if not lower:
        return _NO_VICTIMS
    for other in lower:
        snapshot.remove_pod(other.uid)
    rejection = rejection_with_nominated(pod, snapshot, node, checks_for(pod, snapshot))
    lower.sort(key=_importance)
    violating = violating_pods(lower, snapshot.budgets.values())
    victims = []
    for other in (*violating, *(victim for victim in lower if victim not in violating)):
        snapshot.add_pod(other)
        if rejection is None and not fits(pod, snapshot, node):
            snapshot.remove_pod(other.uid)
            victims.append(other)
    for other in victims:
        snapshot.add_pod(other)
    if rejection is not None:
        return rejection.reasons
    victims.sort(key=_importance)
    violations = sum(victim in violating for victim in victims)
    return _Candidate(node.name, victims, violations) if victims else _NO_VICTIMS


def _importance(pod: PodInfo) -> tuple[int, str, str]:
    """Sort the most important pod first: by priority, then by age."""
    return -pod.priority, pod.started, pod.name


def _cost(candidate: _Candidate) -> tuple[int, int, int, int, tuple[int, ...], str]:
    """Sort the best node first: by the violations of budgets, the highest priority of its victims,
    the sum of the priorities, the number of victims, and the youngest among the most important
    victims."""
    priorities = [victim.priority for victim in candidate.victims]
    highest = max(priorities)
    oldest = min(victim.started for victim in candidate.victims if victim.priority == highest)
    return (
        candidate.violations,
        highest,
        sum(priority + _PRIORITY_OFFSET for priority in priorities),
        len(priorities),
        tuple(-ord(character) for character in oldest),
        candidate.node,
    )
