"""The pods that wait for a node: whose turn it is, and when they are tried again."""

from __future__ import annotations

from kapiserver.simulation.scheduler.pending_pods import PendingPods
from kapiserver.simulation.scheduler.pod_info import PodInfo
from kapiserver.storage.cache.entry import ObjectKey
from tests.simulation.scheduling import a_pod


def pending(*pods):
    queue = PendingPods()
    for pod in pods:
        queue.add(key_of(pod["metadata"]["name"]), PodInfo(pod))
    return queue


def key_of(name):
    return ObjectKey("shop", name)


def names(queue):
    found = []
    while (pod := queue.pop()) is not None:
        found.append(pod.name)
    return found


def test_turns():
    """The highest priority comes first, then the oldest pod."""
    young, old = a_pod("young"), a_pod("old")
    young["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    old["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    assert names(pending(young, old, a_pod("high", priority=1))) == ["high", "old", "young"]


def test_parked_pods():
    """A parked pod is active again when a change may help, or after five minutes."""
    queue, key = pending(a_pod()), key_of("web")
    queue.pop()
    queue.park(key, 0)
    assert queue.activate(lambda _pod: False) == []
    assert names(queue) == []
    assert queue.activate(lambda _pod: True) == [key]
    assert names(queue) == ["web"]
    queue.park(key, 0)
    assert queue.retry(key, 100) == 200
    assert names(queue) == []
    assert queue.retry(key, 300) is None
    assert names(queue) == ["web"]


def test_backoff():
    """After errors a pod waits from one to ten seconds, until an attempt without an error."""
    queue, key = pending(a_pod()), key_of("web")
    waits = []
    for _ in range(6):
        queue.pop()
        queue.back_off(key, 0)
        assert queue.activate(lambda _pod: True) == []
        waits.append(queue.retry(key, 0))
        queue.retry(key, 10)
    assert waits == [1, 2, 4, 8, 10, 10]
    queue.pop()
    queue.park(key, 0)
    queue.activate(lambda _pod: True)
    queue.pop()
    queue.back_off(key, 0)
    assert queue.retry(key, 0) == 1


def test_removed_pods():
    """A pod that is removed has no turn, and does not come back."""
    queue, key = pending(a_pod()), key_of("web")
    queue.remove(key)
    queue.park(key, 0)
    queue.back_off(key, 0)
    assert queue.retry(key, 1000) is None
    assert names(queue) == []
