"""The health of zones, the rates of taints, and the heartbeats of nodes."""

from __future__ import annotations

import pytest

from kapiserver.apiserver.config import NodeLifecycleSettings
from kapiserver.controllers.nodes.heartbeats import Heartbeats
from kapiserver.controllers.nodes.zones import (
    Disruption,
    NodeHealth,
    RateLimiter,
    Zones,
    ZoneState,
    zone_state,
)

NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("ready", "unhealthy", "state"),
    [
        (0, 0, ZoneState.INITIAL),
        (1, 0, ZoneState.NORMAL),
        (0, 1, ZoneState.FULL_DISRUPTION),
        (1, 2, ZoneState.NORMAL),
        (1, 3, ZoneState.PARTIAL_DISRUPTION),
        (9, 11, ZoneState.PARTIAL_DISRUPTION),
        (10, 11, ZoneState.NORMAL),
        (0, 4, ZoneState.FULL_DISRUPTION),
    ],
)
def test_states(ready, unhealthy, state):
    assert zone_state(ready, unhealthy, 0.55) is state


def test_rate():
    """There is no burst; a new rate does not shorten a wait that has begun."""
    limiter = RateLimiter(0.1)
    assert limiter.wait(NOW) == 0
    limiter.take(NOW)
    assert limiter.wait(NOW + 4) == 6
    limiter.set_rate(0.5, NOW + 4)
    assert limiter.wait(NOW + 4) == 2
    limiter.set_rate(0, NOW + 6)
    assert limiter.wait(NOW + 60) is None
    limiter.set_rate(0.1, NOW + 60)
    assert limiter.wait(NOW + 60) == 10


def health(ready, zone="a", counts=True):
    return NodeHealth(zone, ready=ready, counts=counts, waits=not ready)


def zones_of(ready, unhealthy, **settings):
    zones = Zones(NodeLifecycleSettings(**settings))
    for number in range(ready + unhealthy):
        zones.observe(f"node-{number}", health(number < ready))
    zones.update(NOW)
    return zones


def taint_all(zones, seconds):
    """The nodes that get their taint, and when."""
    found, now = [], NOW
    while now <= NOW + seconds:
        while (name := zones.take_next(now)) is not None:
            found.append((name, now - NOW))
            zones.observe(name, health(ready=False)._replace(waits=False))
        wait = zones.wait(now)
        if wait is None:
            break
        now += wait
    return found


def test_a_normal_zone():
    """The first node is tainted at once, the next one after ten seconds."""
    zones = zones_of(8, 2)
    assert taint_all(zones, 100) == [("node-8", 0), ("node-9", 10)]
    assert not zones.observe("node-0", health(ready=True))


@pytest.mark.parametrize(
    ("ready", "unhealthy", "count"),
    [(20, 30, 0), (20, 31, 2), (0, 60, 0)],
    ids=["small", "large", "no node is ready"],
)
def test_a_disrupted_zone(ready, unhealthy, count):
    """A large zone goes on slowly, a small one stops."""
    assert len(taint_all(zones_of(ready, unhealthy), 150)) == count


def test_a_zone_without_ready_nodes_beside_another():
    """Each zone has a rate of its own."""
    zones = zones_of(0, 3)
    zones.observe("other", health(ready=True, zone="b"))
    assert zones.update(NOW) is Disruption.ENDS
    assert [name for name, _ in taint_all(zones, 15)] == ["node-0"]
    assert [name for name, _ in taint_all(zones, 25)] == ["node-1"]


def test_disruption_of_the_cluster():
    zones = zones_of(1, 0)
    zones.observe("node-0", health(ready=False))
    assert zones.update(NOW) is Disruption.BEGINS
    assert zones.are_disrupted
    assert zones.take_next(NOW) is None
    assert zones.wait(NOW) is None
    assert zones.update(NOW) is Disruption.NONE
    zones.observe("other", health(ready=True))
    assert zones.update(NOW) is Disruption.ENDS
    assert zones.wait(NOW) == 10


def test_nodes_that_do_not_count_or_go():
    zones = zones_of(1, 0)
    zones.observe("excluded", health(ready=False, counts=False))
    zones.observe("moved", health(ready=False))
    zones.observe("moved", health(ready=False, zone="b"))
    assert zones.update(NOW) is Disruption.NONE
    assert zones.take_next(NOW) == "excluded"
    assert zones.take_next(NOW) == "moved"
    zones.observe("moved", None)
    zones.observe("excluded", None)
    zones.observe("excluded", None)
    assert zones.update(NOW) is Disruption.NONE
    assert zones.take_next(NOW + 60) is None
    zones.observe("node-0", None)
    assert zones.update(NOW) is Disruption.NONE


def test_heartbeats():
    """A node is silent when its grace period is over, counted from the last heartbeat."""
    nodes = Heartbeats(excuse=5)
    nodes.add("one", NOW, 50)
    nodes.hear("unknown", NOW)
    assert "unknown" not in nodes
    nodes.hear("one", NOW + 20)
    assert not nodes.is_silent("one", NOW + 50)
    assert nodes.wait("one", NOW + 50) == 20
    assert nodes.is_silent("one", NOW + 70)
    assert nodes.wait("one", NOW + 70) == 50
    nodes.hear_all(NOW + 100)
    assert not nodes.is_silent("one", NOW + 120)
    nodes.remove("one")
    nodes.remove("one")
    assert "one" not in nodes


def test_a_late_check():
    """A check that comes late gives a node a little more time, once; a heartbeat clears it."""
    nodes = Heartbeats(excuse=5)
    nodes.add("lost", NOW, 50)
    nodes.add("well", NOW, 50)
    assert not nodes.is_silent("lost", NOW + 600)
    assert nodes.wait("lost", NOW + 600) == 5
    assert nodes.is_silent("lost", NOW + 1200)
    for late in (600, 1200, 1800):
        assert not nodes.is_silent("well", NOW + late)
        nodes.hear("well", NOW + late)
