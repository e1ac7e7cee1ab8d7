"""The pods that wait for a node: some for their turn, some until a change may help them.

| state | entered by | left by |
| --- | --- | --- |
| active | a new or changed pod; a change that may help | `pop`: by priority, then by age |
| in progress | `pop` | `park`, `back_off`, `remove` |
| parked | `park`: no node fits | `activate`, a change of the pod, `retry` after five minutes |
| backing off | `back_off`: an error | `retry` after 1 to 10 seconds, or a change of the pod |

A pod is parked before the message about it is written: a change that arrives during the write
activates it. Mirrors pkg/scheduler/backend/queue, without its backoff of unschedulable pods, which
protects a busy cluster but lets a test wait.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.storage.cache.entry import ObjectKey

MAX_PARKED_SECONDS = 300.0
_MIN_BACKOFF_SECONDS, _MAX_BACKOFF_SECONDS = 1.0, 10.0


class _Turn(NamedTuple):
    """Orders the active pods; smaller ones are scheduled first."""

    negative_priority: int
    created: str
    key: ObjectKey


class PendingPods:
    """The pods without a node that the scheduler is responsible for."""

    def __init__(self) -> None:
        self._pods: dict[ObjectKey, PodInfo] = {}
        self._heap: list[_Turn] = []
        self._active: dict[ObjectKey, _Turn] = {}
        self._parked: dict[ObjectKey, float] = {}
        self._backing_off: dict[ObjectKey, float] = {}
        self._errors: dict[ObjectKey, int] = {}

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._pods

    def add(self, key: ObjectKey, pod: PodInfo) -> None:
        """Add a pod, or replace it, and make it active."""
        self.remove(key)
        self._pods[key] = pod
        self._activate(key)

    def update(self, key: ObjectKey, pod: PodInfo) -> None:
        """Replace a pod and keep its state."""
        self._pods[key] = pod

    def remove(self, key: ObjectKey) -> None:
        """Remove a pod that is deleted, bound or not to be scheduled."""
        self._pods.pop(key, None)
        self._active.pop(key, None)
        self._parked.pop(key, None)
        self._backing_off.pop(key, None)
        self._errors.pop(key, None)

    def pop(self) -> PodInfo | None:
        """Return the active pod whose turn is next; None if no pod is active."""
        while self._heap:
            turn = heapq.heappop(self._heap)
            if self._active.get(turn.key) is turn:  # otherwise it was removed, or has another turn
                del self._active[turn.key]
                return self._pods[turn.key]
        return None

    def park(self, key: ObjectKey, now: float, seconds: float = MAX_PARKED_SECONDS) -> None:
        """Let a pod wait for a change that may help, at most for this many seconds."""
        if key in self._pods:
            self._errors.pop(key, None)
            self._parked[key] = now + seconds

    def back_off(self, key: ObjectKey, now: float) -> None:
        """Let a pod wait after an error, twice as long as after the error before."""
        if key in self._pods:
            errors = self._errors[key] = self._errors.get(key, 0) + 1
            seconds = min(_MIN_BACKOFF_SECONDS * 2.0 ** min(errors - 1, 10), _MAX_BACKOFF_SECONDS)
            self._backing_off[key] = now + seconds

    def retry(self, key: ObjectKey, now: float) -> float | None:
        """Make a pod active whose time is over. Return the seconds until then; None if the pod does
        not wait."""
        time = self._parked.get(key, self._backing_off.get(key))
        if time is None:
            return None
        if time <= now:
            self._activate(key)
            return None
        return time - now

    def activate(self, may_help: Callable[[PodInfo], bool]) -> list[ObjectKey]:
        """Make the parked pods active that a change may help, and return their keys."""
        keys = [key for key in self._parked if may_help(self._pods[key])]
        for key in keys:
            self._activate(key)
        return keys

    def activate_keys(self, keys: Iterable[ObjectKey]) -> list[ObjectKey]:
        """Make the parked ones of these pods active, and return their keys."""
        parked = [key for key in keys if key in self._parked]
        for key in parked:
            self._activate(key)
        return parked

    def _activate(self, key: ObjectKey) -> None:
        self._parked.pop(key, None)
        self._backing_off.pop(key, None)
        pod = self._pods[key]
        turn = self._active[key] = _Turn(-pod.priority, pod.created, key)
        heapq.heappush(self._heap, turn)
