"""Counts the ready nodes of each zone, and limits how fast others get the taint that evicts pods.

    state of a zone   when                                        nodes tainted a second
    normal            otherwise                                   node_eviction_rate
    partial           three nodes or more, and a fraction of      secondary_node_eviction_rate; none
                      unhealthy_zone_threshold, are not ready     in a zone that is not large
    full              no node is ready                            node_eviction_rate
    full everywhere   no node of any zone is ready                none

If no node is ready at all, the fault is more likely to be with the control plane than with every
node. Mirrors handleDisruption and scheduler/rate_limited_queue.go of pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from kapiserver.apiserver.config import NodeLifecycleSettings

_FEWEST_UNHEALTHY = 3
"""A zone with fewer nodes that are not ready is not disrupted in part."""


class ZoneState(Enum):
    """The health of a zone."""

    INITIAL = "Initial"
    NORMAL = "Normal"
    PARTIAL_DISRUPTION = "PartialDisruption"
    FULL_DISRUPTION = "FullDisruption"


class NodeHealth(NamedTuple):
    """What zones know of a node.

    zone        the zone that it is in
    ready       whether it is ready
    counts      whether it counts for the state of the zone
    waits       whether it waits for the taint that evicts its pods
    """

    zone: str
    ready: bool
    counts: bool
    waits: bool


def zone_state(ready: int, unhealthy: int, threshold: float) -> ZoneState:
    """Return the state of a zone with this many nodes that are ready, and that are not. `threshold`
    is the fraction that makes it unhealthy."""
    if not ready:
        return ZoneState.FULL_DISRUPTION if unhealthy else ZoneState.INITIAL
    if unhealthy >= _FEWEST_UNHEALTHY and unhealthy / (ready + unhealthy) >= threshold:
        return ZoneState.PARTIAL_DISRUPTION
    return ZoneState.NORMAL


@dataclass(slots=True)
class RateLimiter:
    """Allows `rate` acts a second, without a burst; none with a rate of 0."""

    rate: float
    next_at: float = 0.0

    def set_rate(self, rate: float, now: float) -> None:
        """Change the rate. The waits that have begun start again."""
        if rate == self.rate:
            return
        must_wait = self.rate == 0 or now < self.next_at
        self.rate = rate
        if must_wait and rate:
            self.next_at = now + 1 / rate

    def wait(self, now: float) -> float | None:
        """Return the seconds until the next act; None: it is not allowed at all."""
        return max(self.next_at - now, 0.0) if self.rate else None

    def take(self, now: float) -> None:
        """Count an act."""
        self.next_at = now + 1 / self.rate


@dataclass(slots=True)
class _Zone:
    limiter: RateLimiter
    ready: int = 0
    unhealthy: int = 0
    waiting: dict[str, None] = field(default_factory=dict)
    """The nodes that wait for their taint, the one that has waited longest first."""

    def count(self, health: NodeHealth, number: int) -> None:
        """Add a node to the counts, or with -1 remove it."""
        if health.counts and health.ready:
            self.ready += number
        elif health.counts:
            self.unhealthy += number


class Disruption(Enum):
    """What happened to the cluster as a whole."""

    NONE = "none"
    BEGINS = "begins"
    ENDS = "ends"


class Zones:
    """The zones of a cluster. Times are seconds since 1970."""

    def __init__(self, settings: NodeLifecycleSettings) -> None:
        self._settings = settings
        self._nodes: dict[str, NodeHealth] = {}
        self._zones: dict[str, _Zone] = {}
        self.are_disrupted = False
        """Whether no node of any zone is ready. It is computed by `update`."""

    def observe(self, name: str, health: NodeHealth | None) -> bool:
        """Note the health of a node, or with None that it is gone. Return whether it is new."""
        old = self._nodes.pop(name, None)
        if old is not None:
            zone = self._zones[old.zone]
            zone.count(old, -1)
            if health is None or not health.waits or health.zone != old.zone:
                zone.waiting.pop(name, None)
        if health is not None:
            self._nodes[name] = health
            zone = self._zones.setdefault(
                health.zone, _Zone(RateLimiter(self._settings.node_eviction_rate))
            )
            zone.count(health, 1)
            if health.waits:
                zone.waiting[name] = None
        return health != old

    def update(self, now: float) -> Disruption:
        """Compute the states of all zones, and their rates."""
        threshold = self._settings.unhealthy_zone_threshold
        states = {
            name: zone_state(zone.ready, zone.unhealthy, threshold)
            for name, zone in self._zones.items()
        }
        known = [state for state in states.values() if state is not ZoneState.INITIAL]
        disrupted = bool(known) and set(known) == {ZoneState.FULL_DISRUPTION}
        was_disrupted, self.are_disrupted = self.are_disrupted, disrupted
        for name, zone in self._zones.items():
            zone.limiter.set_rate(self._rate(states[name], zone.ready + zone.unhealthy), now)
        if disrupted == was_disrupted:
            return Disruption.NONE
        return Disruption.BEGINS if disrupted else Disruption.ENDS

    def counts(self) -> dict[str, tuple[int, int]]:
        """Return how many nodes are ready, and how many are not, by zone."""
        return {name: (zone.ready, zone.unhealthy) for name, zone in self._zones.items()}

    def _rate(self, state: ZoneState, size: int) -> float:
        if self.are_disrupted:
            return 0.0
        if state is not ZoneState.PARTIAL_DISRUPTION:
            return self._settings.node_eviction_rate
        is_large = size > self._settings.large_cluster_size_threshold
        return self._settings.secondary_node_eviction_rate if is_large else 0.0

    def take_next(self, now: float) -> str | None:
        """Return a node to taint now, or None. It waits until `observe` notes that it does not."""
        for zone in self._zones.values():
            if zone.waiting and zone.limiter.wait(now) == 0:
                zone.limiter.take(now)
                return next(iter(zone.waiting))
        return None

    def wait(self, now: float) -> float | None:
        """Return the seconds until a node may be tainted; None if none may."""
        waits = [zone.limiter.wait(now) for zone in self._zones.values() if zone.waiting]
        return min((wait for wait in waits if wait is not None), default=None)
