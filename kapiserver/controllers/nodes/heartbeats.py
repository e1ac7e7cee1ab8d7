"""Keeps the time of each node's last heartbeat, and decides whether a node is silent for too long.

A renewed Lease and a new heartbeat in the node's status count. The times are those of this
controller when it sees a heartbeat, because the clocks of nodes may differ.

A check that comes late does not decide. While the machine slept, or a test moved the clock, no
kubelet could renew its Lease either. So the node gets a little more time, until the next check.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Heartbeat:
    """The state of one node.

    seen        when it was heard last
    grace       how long it may be silent
    due         when it is checked next
    has_excuse  whether the last check came late
    """

    seen: float
    grace: float
    due: float
    has_excuse: bool = False


class Heartbeats:
    """The heartbeats of all nodes. Times are seconds since 1970.

    excuse  how many seconds a check may come late, and how long a node then has
    """

    def __init__(self, excuse: float) -> None:
        self._excuse = excuse
        self._nodes: dict[str, Heartbeat] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def hear(self, name: str, now: float) -> None:
        """Note that a node has been heard. One that is not known is ignored."""
        if (node := self._nodes.get(name)) is not None:
            node.seen, node.has_excuse = now, False

    def hear_all(self, now: float) -> None:
        """Note that all nodes have been heard."""
        for name in self._nodes:
            self.hear(name, now)

    def add(self, name: str, seen: float, grace: float) -> None:
        """Add a node that was heard at a time, or replace it. `grace` is how many seconds it may be
        silent."""
        self._nodes[name] = Heartbeat(seen, grace, seen + grace)

    def remove(self, name: str) -> None:
        """Forget a node. Idempotent."""
        self._nodes.pop(name, None)

    def is_silent(self, name: str, now: float) -> bool:
        """Report whether a node has been silent for the grace period. Plan its next check: `wait`
        returns the time until then."""
        node = self._nodes[name]
        end = node.seen + node.grace
        if now < end:
            node.due = end
            return False
        if now - node.due > self._excuse and not node.has_excuse:
            node.has_excuse, node.due = True, now + self._excuse
            return False
        node.due = now + node.grace
        return True

    def wait(self, name: str, now: float) -> float:
        """Return the seconds until the next check of a node."""
        return self._nodes[name].due - now
