"""Preemption: which pods of lower priority have to end so that a pod fits on a node.

On each node where the end of pods may help, all pods of lower priority are taken off the snapshot;
if the pod fits then, the most important ones are put back one by one as long as it still fits. The
others are the victims. All pods are back on the snapshot afterwards. PodDisruptionBudgets are not
looked at. Mirrors pkg/scheduler/framework/preemption.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

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
    node: str
    victims: Sequence[PodInfo]


def preempt(pod: PodInfo, snapshot: Snapshot, rejections: Mapping[str, Rejection]) -> Preemption:
    """Decide which pods have to end for a pod that fits on no node."""
    if pod.spec.get("preemptionPolicy") == "Never":
        return Preemption(_NEVER, pod.nominated_node)
    if _waits_for_victims(pod, snapshot, rejections):
        return Preemption(_TERMINATING, pod.nominated_node)
    reasons: Counter[str] = Counter()
    candidates: list[_Candidate] = []
    hopeless = len(snapshot.nodes)
    most = max(_MIN_CANDIDATES, len(snapshot.nodes) // 10)
    for node in snapshot.nodes:
        rejection = rejections.get(node.name)
        if rejection is None or not rejection.resolvable or len(candidates) == most:
            continue
        hopeless -= 1
        found = _victims(pod, snapshot, node)
        if isinstance(found, _Candidate):
            candidates.append(found)
        else:
            reasons.update(found)
    if not candidates:
        if hopeless:
            reasons[_NOT_HELPFUL] = hopeless
        return Preemption(fit_message(len(snapshot.nodes), reasons))
    best = min(candidates, key=_cost)
    text = f"found a potential placement for pod on node {best.node}"
    return Preemption(f"{text}, preempting {len(best.victims)} victims", *best)


def _waits_for_victims(
    pod: PodInfo, snapshot: Snapshot, rejections: Mapping[str, Rejection]
) -> bool:
    """Report whether pods of lower priority are ending on the pod's nominated node."""
    node = snapshot.node(pod.nominated_node) if pod.nominated_node else None
    rejection = rejections.get(node.name) if node is not None else None
    if node is None or (rejection is not None and not rejection.resolvable):
        return False
    return any(
        other.is_terminating and other.priority < pod.priority for other in node.pods.values()
    )


def _victims(pod: PodInfo, snapshot: Snapshot, node: NodeInfo) -> _Candidate | Sequence[str]:
    """Return the victims on one node, or the reasons why there are none."""
    lower = [other for other in node.pods.values() if other.priority < pod.priority]
    if not lower:
        return _NO_VICTIMS
    for other in lower:
        snapshot.remove_pod(other.uid)
    rejection = rejection_with_nominated(pod, snapshot, node, checks_for(pod, snapshot))
    victims = []
    for other in sorted(lower, key=_importance):
        snapshot.add_pod(other)
        if rejection is None and not fits(pod, snapshot, node):
            snapshot.remove_pod(other.uid)
            victims.append(other)
    for other in victims:
        snapshot.add_pod(other)
    return _Candidate(node.name, victims) if rejection is None else rejection.reasons


def _importance(pod: PodInfo) -> tuple[int, str, str]:
    """Sort the most important pod first: by priority, then by age."""
    return -pod.priority, pod.started, pod.name


def _cost(candidate: _Candidate) -> tuple[int, int, int, tuple[int, ...], str]:
    """Sort the best node first: by the highest priority of its victims, the sum of the priorities,
    the number of victims, and the youngest among the most important victims."""
    priorities = [victim.priority for victim in candidate.victims]
    highest = max(priorities)
    oldest = min(each.started for each in candidate.victims if each.priority == highest)
    return (
        highest,
        sum(priority + _PRIORITY_OFFSET for priority in priorities),
        len(priorities),
        tuple(-ord(character) for character in oldest),
        candidate.node,
    )
