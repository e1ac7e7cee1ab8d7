"""The queues of a priority level: seats, turns between flows, and bounds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.apiserver.flowcontrol.flow_series import FlowSeries
from kapiserver.apiserver.flowcontrol.priority_level import LevelSpec, PriorityLevel
from kapiserver.apiserver.flowcontrol.queue_set import (
    CONCURRENCY_LIMIT,
    QUEUE_FULL,
    Flow,
    QueueSet,
    Ticket,
)
from kapiserver.apiserver.flowcontrol.retry_after import RetryAfter
from kapiserver.apiserver.flowcontrol.work_estimate import ONE_SEAT, WorkEstimate, estimate_of
from kapiserver.apiserver.metrics import RequestsOfKind
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User

JANE, GET = User(name="jane"), RequestInfo(verb="get")


class World:
    """A priority level in a world with a time of its own.

    limit           the seats of the level
    queues          the number of queues, of which each flow has one of its own
    queue_length    the length of each
    """

    def __init__(self, limit: int, queues: int = 8, queue_length: int = 1000) -> None:
        self.now = 100.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.level = PriorityLevel("some", self._call_later, lambda: self.now)
        spec = LevelSpec(shares=1, queues=queues, hand_size=1, queue_length=queue_length)
        self.level.configure(spec)
        self.level.set_current(limit, limit)
        self.queue_set: QueueSet = self.level.queue_set
        self.flows = [
            Flow(
                schema="schema", queue_set=self.queue_set, max_seats=10,
                series=self.level.series.setdefault(str(number), FlowSeries()),
                retry_after=RetryAfter(), distinguisher=str(number),
                kind=RequestsOfKind("readOnly"), hand=(number,),
            )
            for number in range(max(1, queues))
        ]  # fmt: skip
        self.waiting: list[Ticket] = []
        self.started: list[Ticket] = []
        """The requests in the order in which they began to execute."""

    def _call_later(self, seconds: float, callback: Callable[[], None]) -> None:
        self.timers.append((self.now + seconds, callback))

    def advance(self, seconds: float) -> None:
        """Let the time go on."""
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer[0] <= end]:
            timer = min(due, key=lambda each: each[0])
            self.timers.remove(timer)
            self.now = max(self.now, timer[0])
            timer[1]()
        self.now = end

    def arrive(self, flow: int, work: WorkEstimate = ONE_SEAT) -> str:
        """Let a request of a flow come; return why it is rejected."""
        ticket = Ticket(self.flows[flow % len(self.flows)], JANE, GET, work, self.now, ())

        def note() -> None:
            self.waiting.remove(ticket)
            self.started.append(ticket)

        self.queue_set.start(ticket, self.now)
        if ticket.started is not None:
            self.started.append(ticket)
        elif not ticket.rejection:
            self.waiting.append(ticket)
            ticket.on_start = note
        return ticket.rejection

    def finish(self, ticket: Ticket) -> None:
        """Let a request end."""
        self.queue_set.finish(ticket, self.now)

    def finish_oldest(self) -> None:
        """Let the request end that has executed longest."""
        self.finish(next(each for each in self.started if each in self.queue_set.executing))

    def check(self) -> None:
        """Check what holds at any time."""
        queue_set, queues = self.queue_set, self.queue_set.all_queues
        assert queue_set.waiting == len(self.waiting) == sum(len(each.waiting) for each in queues)
        assert queue_set.seats_waiting == sum(each.work.seats for each in self.waiting)
        assert queue_set.seats_in_use == sum(queue_set.seats_by_queue().values())
        assert len(queue_set.lingering) == len(self.timers)
        assert queue_set._early <= queue_set.executing
        assert queue_set._wide_in_use == sum(
            each.work.seats
            for each in (*queue_set.executing, *queue_set.lingering)
            if each.work.seats > 1
        )
        assert queue_set._busy == sum(bool(each.waiting or each.executing) for each in queues)
        for queue in queues:
            assert len(queue.waiting) <= queue_set.length_limit
            work = sum(each.work.total_work for each in queue.waiting)
            assert abs(queue.work_waiting - work) < 1e-9
            if queue.waiting:
                assert queue.next_start >= queue.waiting[0].arrival_progress
        assert set(queue_set._nonempty) == {each for each in queues if each.waiting}
        if self.waiting and queue_set.limit:  # no seat is free that the next request could take
            heads = [each.waiting[0].work.seats for each in queues if each.waiting]
            narrow = queue_set.seats_in_use - queue_set._wide_in_use
            is_free = narrow < queue_set.limit // 4 and queue_set.seats_in_use < queue_set.limit
            assert not is_free or 1 not in heads
            has_early = len(queue_set._early) < queue_set.limit // 8
            if has_early and queue_set.seats_in_use < queue_set.limit:
                idle = [each for each in queues if each.waiting and not each.executing]
                assert 1 not in [each.waiting[0].work.seats for each in idle]
            assert not all(map(queue_set._has_room, heads))
        self.level.count_seats()
        series = [flow.series for flow in self.flows]
        assert sum(each.executing for each in series) == len(queue_set.executing)
        assert sum(each.seats for each in series) == queue_set.seats_in_use
        assert sum(each.waiting for each in series) == queue_set.waiting


works = st.builds(
    estimate_of,
    st.integers(1, 6),
    st.integers(0, 6),
    st.sampled_from([0.005, 0.05]),
)
steps = st.one_of(
    st.tuples(st.just("arrive"), st.integers(0, 7), works),
    st.tuples(st.just("finish"), st.integers(0, 50), st.none()),
    st.tuples(st.just("cancel"), st.integers(0, 50), st.none()),
    st.tuples(st.just("advance"), st.integers(0, 100), st.none()),
    st.tuples(st.just("limit"), st.integers(0, 20), st.none()),
    st.tuples(st.just("queues"), st.integers(1, 8), st.none()),
)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 8), st.integers(1, 4), st.lists(steps, max_size=60))
def test_invariants(limit: int, queue_length: int, actions: list) -> None:
    """Whatever happens, counts are right, bounds hold, and no seat stays free that the next request
    could take; at the end everybody gets a seat."""
    world = World(limit, queue_length=queue_length)
    for action, number, work in actions:
        executing = [each for each in world.started if each in world.queue_set.executing]
        if action == "arrive":
            before = world.queue_set.seats_in_use
            flow = number % len(world.queue_set.queues)
            world.arrive(flow, work)
            grown = world.queue_set.seats_in_use - before
            alone = len(world.queue_set.executing) == 1
            assert not grown or world.queue_set.seats_in_use <= world.queue_set.limit or alone
        elif action == "finish" and executing:
            world.finish(executing[number % len(executing)])
        elif action == "cancel" and world.waiting:
            ticket = world.waiting[number % len(world.waiting)]
            world.waiting.remove(ticket)
            world.queue_set.cancel(ticket)
        elif action == "advance":
            world.advance(number / 1000)
        elif action == "limit":
            world.level.set_current(number, 8)
        elif action == "queues":
            world.queue_set.configure(number, queue_length, is_exempt=False)
        world.check()
    world.level.set_current(3, 8)
    for _ in range(len(actions)):
        if world.queue_set.executing:
            world.finish_oldest()
        world.advance(1.0)
        world.check()
    assert world.queue_set.is_idle
    assert world.queue_set.seats_in_use == 0


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 6),
    st.sampled_from([st.just(1), st.integers(2, 5)]).flatmap(
        lambda seats: st.lists(st.tuples(seats, st.integers(1, 30)), min_size=2, max_size=6)
    ),
)
def test_fair_shares(limit: int, flows: list[tuple[int, int]]) -> None:
    """Flows with requests waiting get the same seat-seconds, however many requests they send, how
    many seats these take, and how long. Flows of narrow requests have seats of their own beside
    those of wide ones: both are not compared."""
    limit += max(seats for seats, _ in flows)
    world = World(limit)
    for number, (seats, _) in enumerate(flows):
        for _ in range(400):
            world.arrive(number, estimate_of(seats))
    seat_seconds: Counter[int] = Counter()
    ends = {
        each: world.now + flows[int(each.flow.distinguisher)][1] / 1000 for each in world.started
    }
    most = max(seats * duration for seats, duration in flows) / 1000
    for _ in range(300):
        ticket = min(ends, key=ends.__getitem__)
        world.advance(max(0.0, ends.pop(ticket) - world.now))
        started = len(world.started)
        world.finish(ticket)
        number = int(ticket.flow.distinguisher)
        seat_seconds[number] += ticket.work.seats * (world.now - ticket.started)
        for each in world.started[started:]:
            ends[each] = world.now + flows[int(each.flow.distinguisher)][1] / 1000
        backlogged = [i for i in range(len(flows)) if world.queue_set.queues[i].waiting]
        if len(backlogged) < len(flows):
            break
        # The requests that execute are not counted yet.
        bound = 2 * limit * most + most
        assert (
            max(seat_seconds[i] for i in backlogged)
            <= min(seat_seconds[i] for i in backlogged) + bound
        )


def test_flood_delays_nobody() -> None:
    """A request of another flow is next, however many requests of one flow wait."""
    world = World(limit=2)
    for _ in range(500):
        world.arrive(0)
    world.advance(1.0)
    for _ in range(20):
        world.finish_oldest()
        world.advance(0.003)
    world.arrive(1)
    assert world.waiting[-1].flow.distinguisher == "1"
    for _ in range(3):  # what executes now counts when it ends
        world.finish_oldest()
    assert "1" in [each.flow.distinguisher for each in world.started[-3:]]


def test_idle_flow_saves_nothing() -> None:
    """A flow that was idle for long gets its turn, and not a hundred."""
    world = World(limit=1)
    for _ in range(200):
        world.arrive(0)
        world.finish_oldest()
        world.advance(0.003)
    for flow in (0, 1) * 50:
        world.arrive(flow)
    order = []
    for _ in range(20):
        world.advance(0.003)
        world.finish_oldest()
        order.append(world.started[-1].flow.distinguisher)
    assert abs(order.count("0") - order.count("1")) <= 2


def test_wide_request_is_not_starved() -> None:
    """While the next request needs more seats than are free, nobody overtakes it."""
    world = World(limit=4)
    for _ in range(4):
        world.arrive(0)
    world.arrive(1, estimate_of(4))
    for _ in range(40):
        world.arrive(2)
    wide = world.waiting[0]
    for _ in range(12):
        world.advance(0.003)
        if wide in world.started:
            break
        world.finish_oldest()
    assert wide in world.started


def test_narrow_requests_have_seats_of_their_own() -> None:
    """Wide requests leave a quarter of the seats, and do not block it while they wait."""
    world = World(limit=8)
    for _ in range(3):
        world.arrive(0, estimate_of(3))
    assert world.queue_set.seats_in_use == 6
    for _ in range(3):
        world.arrive(1)
    assert world.queue_set.seats_in_use == 8
    assert len(world.waiting) == 2


def test_first_requests_overtake() -> None:
    """While a wide request waits, others may take free seats if their queues have no request that
    executes: an eighth of the seats, so that the wide request executes in the end."""
    world = World(limit=16)
    world.arrive(0, estimate_of(6))
    for _ in range(6):
        world.arrive(1)
    world.arrive(0, estimate_of(6))
    wide = world.waiting[0]
    world.advance(1.0)  # it has waited so long that it is next
    world.arrive(1)
    assert [ticket.flow.distinguisher for ticket in world.waiting] == ["0", "1"]
    for flow in (2, 3, 4):
        world.arrive(flow)
    assert [ticket.flow.distinguisher for ticket in world.waiting] == ["0", "1", "4"]
    world.finish(world.started[-1])
    assert [ticket.flow.distinguisher for ticket in world.waiting] == ["0", "1"]
    while wide not in world.started:
        world.arrive(2)
        world.finish_oldest()
        world.check()


def test_wider_than_the_level() -> None:
    """A request that is wider than its level executes alone."""
    world = World(limit=2)
    world.arrive(0)
    world.arrive(1, estimate_of(5))
    assert len(world.waiting) == 1
    world.finish_oldest()
    assert not world.waiting
    world.arrive(0)
    assert len(world.waiting) == 1


def test_final_seats_stay_taken() -> None:
    """The final seats of a write are free after a moment, and its response does not wait."""
    world = World(limit=3)
    world.arrive(0, estimate_of(1, 3, 0.05))
    assert world.queue_set.seats_in_use == 3
    world.finish_oldest()
    assert not world.queue_set.executing
    world.arrive(1)
    assert len(world.waiting) == 1
    world.advance(0.051)
    assert not world.waiting


def test_rejections() -> None:
    """A full queue rejects requests of its flow only; a level without queues rejects what does not
    fit."""
    world = World(limit=1, queue_length=2)
    assert [world.arrive(0) for _ in range(4)] == ["", "", "", QUEUE_FULL]
    assert world.arrive(1) == ""
    without_queues = World(limit=1, queues=0)
    assert [without_queues.arrive(0) for _ in range(2)] == ["", CONCURRENCY_LIMIT]


def test_exempt_level() -> None:
    """An exempt level executes everything at once, and counts it."""
    world = World(limit=0, queues=0)
    world.queue_set.configure(0, 0, is_exempt=True)
    assert [world.arrive(0) for _ in range(100)] == [""] * 100
    assert len(world.queue_set.executing) == 100


def test_removed_queues_drain() -> None:
    """The requests in a queue that a level no longer has get their turn."""
    world = World(limit=1)
    for flow in (0, 7, 7):
        world.arrive(flow)
    world.queue_set.configure(2, 10, is_exempt=False)
    assert len(world.queue_set.all_queues) == 3
    for _ in range(3):
        world.finish_oldest()
    assert world.queue_set.is_idle
    assert len(world.queue_set.all_queues) == 2


def test_usage() -> None:
    """The demand of a period has its average, deviation and maximum, weighted by time."""
    world = World(limit=10)
    world.queue_set.usage.take_demand(0)
    for _ in range(4):
        world.arrive(0)
    world.advance(2.0)
    for _ in range(4):
        world.finish_oldest()
    world.advance(2.0)
    world.queue_set.sync_now()
    demand = world.queue_set.usage.take_demand(0)
    assert demand == (4.0, 2.0, 2.0, 4)
    counts = world.queue_set.usage.seat_use.counts
    assert counts[world.queue_set.usage.seat_use.bounds.index(0.4)] == 2_000_000_000
