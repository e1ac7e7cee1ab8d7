"""The queues of one priority level: fair queuing of requests by virtual time.

Why it exists: a level has a number of seats. When all are taken, the next request to execute must
not be the oldest one, because a flow that sends a thousand requests would delay all others. So each
flow has a hand of queues (`shuffle_sharding.py`), its request joins the one with the least work
waiting, and the queues take turns by the seats that they have used.

How the turns are found: imagine that all queues with requests share the seats equally, at every
instant. `progress` is the seat-seconds that each of them has got in that imagined world. A queue
has a `next_start`: the progress at which its next request begins there. The queue whose request
would end first there is the next one here.

    arrives         an idle queue begins at the present progress: it saves nothing for later
    is dispatched   `next_start` moves on by the estimated work of the request
    ends            the estimate is corrected by the time that the request took
    waits           `next_start` is at least the progress at the arrival of the oldest request, so
                    that a queue without enough requests collects no rights either

States of a ticket, and who moves it:

    new -> executing            `start`, if the seats are free and nobody waits
    new -> waiting              `start`
    new -> rejected             `start`, if its queue is full
    waiting -> executing        `_dispatch`, when another request ends or the limits grow
    waiting -> cancelled        `cancel`: the wait took too long, or the client went
    executing -> ended          `finish`; its final seats stay taken for a moment after that

The request at the head of the chosen queue may need more seats than are free. Then only requests
with one seat are dispatched until it fits, or wide requests would starve. Requests with one seat
have a part of the seats (`_NARROW_PART`), and busy users may fill it. So the first request of a
queue may take any free seat, as long as few have done so (`_FIRST_PART`): a user who sends little
does not wait until requests of other users end. kube-apiserver does not have such parts, and lets
queues grow beyond their length meanwhile. Mirrors fairqueuing/queueset of util/flowcontrol of
k8s.io/apiserver. Knows no clock: times are seconds that only grow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import Struct

from kapiserver.api.scalar_types import format_duration
from kapiserver.apiserver.flowcontrol.flow_series import FlowSeries
from kapiserver.apiserver.flowcontrol.retry_after import RetryAfter
from kapiserver.apiserver.flowcontrol.seat_usage import Load, SeatUsage
from kapiserver.apiserver.flowcontrol.work_estimate import (
    EXECUTION_SECONDS,
    ONE_SEAT,
    WorkEstimate,
)
from kapiserver.apiserver.metrics import RequestsOfKind
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User

_NARROW_PART = 4
"""A quarter of a level's seats is for requests that take one seat. Lists run for long, and on one
event loop many at once are not faster: they must leave seats for small requests."""
_FIRST_PART = 8
"""An eighth of a level's seats may be taken out of turn by requests with one seat whose queue has
no other request that executes."""
_MAX_LOGGED_NAME = 64
"""Letters of a name in the access log."""
QUEUE_FULL, CONCURRENCY_LIMIT, TIME_OUT = "queue-full", "concurrency-limit", "time-out"
"""Why a request is rejected, as metrics say it."""


class Flow(Struct, frozen=True, eq=False, kw_only=True):
    """The requests of one user, or for one namespace, that one FlowSchema matches.

    schema, level   the names of the FlowSchema and of the priority level
    distinguisher   the user or the namespace; "" if the schema makes one flow of all requests
    queue_set       that of its priority level
    hand            the numbers of the queues that its requests may join
    max_seats       the seats that one of its requests may take
    retry_after     that of its priority level
    kind            the requests that read, or those that change something
    headers         the headers of responses, which have the uids of the schema and the level
    """

    schema: str
    level: str = ""
    distinguisher: str = ""
    queue_set: QueueSet
    hand: tuple[int, ...] = (0,)
    max_seats: int
    retry_after: RetryAfter
    series: FlowSeries
    kind: RequestsOfKind
    headers: tuple[tuple[str, str], ...] = ()


class Ticket(Struct, eq=False, gc=False):
    """One request at its priority level.

    flow        what decides on its queue
    work        its estimated work
    queue       its queue; None in a level without queues
    headers     those of the response, which name the level and the FlowSchema
    arrived, started    when it came, and began to execute; `started` is None until then
    on_start    called when it begins to execute after it has waited
    has_waited  whether it was in a queue
    rejection   why it is rejected, or ""
    seconds     how long it executed; None until it has ended
    """

    flow: Flow
    user: User
    info: RequestInfo
    work: WorkEstimate
    arrived: float
    headers: tuple[tuple[str, str], ...]
    arrival_progress: float = 0.0
    started: float | None = None
    queue: Queue | None = None
    on_start: Callable[[], None] | None = None
    has_waited: bool = False
    rejection: str = ""
    seconds: float | None = None

    def log_fields(self, now: float) -> dict[str, object]:
        """Return the fields of the access log, as kube-apiserver names them."""
        work = self.work
        fields: dict[str, object] = {
            "apf_pl": self.flow.level[:_MAX_LOGGED_NAME],
            "apf_fs": self.flow.schema[:_MAX_LOGGED_NAME],
            "apf_iseats": work.initial_seats,
            "apf_fseats": work.final_seats,
            "apf_additionalLatency": format_duration(round(work.final_seconds * 1e9)),
        }
        if self.started is not None:
            seconds = now - self.started if self.seconds is None else self.seconds
            text = format_duration(round(seconds * 1e9))
            if self.info.verb == "watch":
                fields["apf_init_latency"] = text
            fields["apf_execution_time"] = text
        return fields


class Queue:
    """One queue.

    waiting         its requests that wait, the oldest first
    executing       how many of its requests execute
    next_start      the progress at which its next request begins in the imagined world
    work_waiting    the estimated seat-seconds of the waiting requests
    """

    __slots__ = ("executing", "next_start", "waiting", "work_waiting")

    def __init__(self) -> None:
        self.waiting: list[Ticket] = []  # an empty deque takes 760 bytes, and a server has 500
        self.executing = 0
        self.next_start = 0.0
        self.work_waiting = 0.0

    def bound(self) -> None:
        """Let the oldest request begin no earlier than it arrived."""
        if self.waiting and self.next_start < self.waiting[0].arrival_progress:
            self.next_start = self.waiting[0].arrival_progress


class QueueSet:
    """The queues and seats of one priority level.

    call_later      calls a function after some seconds
    limit           the seats of the level
    is_exempt       whether requests never wait
    queues          those that new requests may join; older ones drain
    length_limit    how many requests may wait in one queue
    progress        the seat-seconds that a busy queue has got in the imagined world
    executing       the requests that execute
    lingering       those that have ended, and whose final seats are still taken
    waiting         how many requests wait
    seats_in_use, seats_waiting     the seats of those
    synced_at       when the level was accounted for last
    """

    def __init__(
        self, call_later: Callable[[float, Callable[[], None]], object], now: Callable[[], float]
    ) -> None:
        self._call_later = call_later
        self._now = now
        self.limit = 0
        self.is_exempt = False
        self.queues: list[Queue] = []
        self.length_limit = 0
        self.progress = 0.0
        self.executing: set[Ticket] = set()
        self.lingering: set[Ticket] = set()
        self.waiting = 0
        self.seats_in_use = 0
        self.seats_waiting = 0
        self.usage = SeatUsage()
        self._seconds_by_load = self.usage.seconds_by_load
        self.counts = QueueSetCounts()
        self._nonempty: dict[Queue, None] = {}
        """The queues with waiting requests; the one that was dispatched last is the last."""
        self._wide_in_use = 0
        """The seats of requests that take several."""
        self._early: set[Ticket] = set()
        """The first requests of queues that execute out of turn."""
        self._busy = 0
        """How many queues have requests, waiting or executing."""
        self._arrivals = 0
        self.synced_at = now()

    def configure(self, queues: int, length_limit: int, *, is_exempt: bool) -> None:
        """Set the number of queues and their length. Requests in surplus queues stay there."""
        self.is_exempt = is_exempt
        self.length_limit = length_limit
        del self.queues[queues:]
        self.queues += [Queue() for _ in range(queues - len(self.queues))]

    def set_limit(self, limit: int) -> None:
        """Set the seats of the level, and dispatch what fits now."""
        self.sync(self._now())
        self.limit = limit
        self._dispatch(self.synced_at)

    @property
    def is_idle(self) -> bool:
        """Whether no request waits or executes."""
        return not self.executing and not self.waiting

    @property
    def all_queues(self) -> list[Queue]:
        """The queues, and after them those that drain."""
        queues = dict.fromkeys(self.queues) | self._nonempty
        draining = (ticket.queue for ticket in self.executing if ticket.queue is not None)
        return [*queues, *(queue for queue in dict.fromkeys(draining) if queue not in queues)]

    def sync_now(self) -> None:
        """Account for the time until now."""
        self.sync(self._now())

    def sync(self, now: float) -> None:
        """Let the imagined world go on until now, and account for the time that passed."""
        elapsed = now - self.synced_at
        self.synced_at = now
        seats, seats_waiting = self.seats_in_use, self.seats_waiting
        if self._busy:
            demand, limit = seats + seats_waiting, self.limit
            self.progress += elapsed * (demand if demand < limit else limit) / self._busy
        executing, waiting = len(self.executing), self.waiting
        load: Load = seats
        if waiting or seats != executing:
            load = (seats, seats_waiting, executing, waiting)
        seconds_by_load = self._seconds_by_load
        try:
            seconds_by_load[load] += elapsed
        except KeyError:
            seconds_by_load[load] = elapsed
            self.usage.flush_if_full()

    def start(self, ticket: Ticket, now: float) -> None:
        """Execute a request now, let it wait, or reject it, as the ticket says afterwards."""
        self.sync(now)
        seats = ticket.work.seats
        if not self.queues:
            if not self.is_exempt and not self._has_room(seats):
                self._reject(ticket, CONCURRENCY_LIMIT)
            else:
                self._execute(ticket, now)
            return
        hand = ticket.flow.hand
        self._arrivals += 1
        if not self.waiting:
            queue = ticket.queue = self.queues[hand[self._arrivals % len(hand)]]
            if (seats == 1 and self.seats_in_use < self.limit) or self._has_room(seats):
                if not queue.executing:
                    self._busy += 1
                    queue.next_start = self.progress
                self._execute(ticket, now)
                return
        else:
            queue = ticket.queue = self._shortest(hand)
        if len(queue.waiting) >= self.length_limit:
            self._reject(ticket, QUEUE_FULL)
            return
        self._enqueue(queue, ticket)
        self._dispatch(now)

    def _reject(self, ticket: Ticket, reason: str) -> None:
        ticket.rejection = reason
        ticket.flow.series.rejected.add(reason)
        self.counts.rejected += 1

    def cancel(self, ticket: Ticket) -> None:
        """Remove a request that waits."""
        queue = ticket.queue
        assert queue is not None
        self.sync(self._now())
        queue.waiting.remove(ticket)
        self._leave_queue(queue, ticket)
        if not queue.waiting and not queue.executing:
            self._busy -= 1
        queue.bound()
        self._reject(ticket, TIME_OUT)
        self.counts.cancelled += 1
        self._dispatch(self.synced_at)  # the head of its queue may be a narrower request now

    def finish(self, ticket: Ticket, now: float) -> float:
        """Note the end of a request that executes, and return the seconds that it took."""
        self.sync(now)
        started = ticket.started
        assert started is not None
        ticket.seconds = seconds = now - started
        self.executing.remove(ticket)
        if self._early:
            self._early.discard(ticket)
        queue, work = ticket.queue, ticket.work
        if queue is not None:
            queue.executing -= 1
            queue.next_start += work.initial_seats * (seconds - EXECUTION_SECONDS)
            if queue.waiting:
                queue.bound()
            elif not queue.executing:
                self._busy -= 1
        if work is ONE_SEAT:
            self.seats_in_use -= 1
        elif work.final_seats:
            self.lingering.add(ticket)
            self._call_later(work.final_seconds, lambda: self._release_later(ticket))
        else:
            self._release(work.seats)
        if self.waiting:
            self._dispatch(now)
        return seconds

    def _release_later(self, ticket: Ticket) -> None:
        now = self._now()
        self.sync(now)
        self.lingering.remove(ticket)
        self._release(ticket.work.seats)
        self._dispatch(now)

    def _release(self, seats: int) -> None:
        self.seats_in_use -= seats
        if seats > 1:
            self._wide_in_use -= seats

    def _has_room(self, seats: int) -> bool:
        limit = self.limit if seats == 1 else self.limit - self.limit // _NARROW_PART
        if self.seats_in_use + seats <= limit:
            return True
        # A request that is wider than the level executes alone.
        return seats > limit > 0 and not self.seats_in_use

    def _shortest(self, hand: tuple[int, ...]) -> Queue:
        """Return the queue of a hand with the least work waiting. The search begins with another
        card each time, so that flows with common cards do not prefer the same ones."""
        size, queues = len(hand), self.queues
        first = self._arrivals % size
        best = queues[hand[first]]
        for offset in range(1, size):
            queue = queues[hand[(first + offset) % size]]
            if queue.work_waiting < best.work_waiting:
                best = queue
        return best

    def _enqueue(self, queue: Queue, ticket: Ticket) -> None:
        if not queue.waiting:
            self._nonempty[queue] = None
            if not queue.executing:
                self._busy += 1
                queue.next_start = self.progress
        ticket.arrival_progress = self.progress
        ticket.has_waited = True
        queue.waiting.append(ticket)
        queue.work_waiting += ticket.work.total_work
        queue.bound()
        self.waiting += 1
        self.seats_waiting += ticket.work.seats
        ticket.flow.series.enqueue(ticket.work.seats, len(queue.waiting))

    def _leave_queue(self, queue: Queue, ticket: Ticket) -> None:
        if queue.waiting:
            queue.work_waiting -= ticket.work.total_work
        else:
            queue.work_waiting = 0.0  # not a sum of rounding errors
            del self._nonempty[queue]
        self.waiting -= 1
        self.seats_waiting -= ticket.work.seats
        ticket.flow.series.dequeue(ticket.work.seats)

    def _dispatch(self, now: float) -> None:
        """Execute waiting requests as long as the next one fits."""
        while self.waiting and self.seats_in_use < self.limit:
            queue = min(self._nonempty, key=_next_end)
            if not self._has_room(queue.waiting[0].work.seats):
                queue.waiting[0].flow.series.not_accommodated += 1
                overtaking = self._overtaking_queue()
                if overtaking is None:
                    return
                queue = overtaking
            self._dispatch_from(queue, now)

    def _overtaking_queue(self) -> Queue | None:
        """Return the next queue whose first request may overtake the one that needs more seats. Few
        may, so that they cannot delay it for ever."""
        has_narrow = self.seats_in_use - self._wide_in_use < self.limit // _NARROW_PART
        has_early = len(self._early) < self.limit // _FIRST_PART
        queues = [
            queue
            for queue in self._nonempty
            if queue.waiting[0].work.seats == 1
            and (has_narrow or (has_early and not queue.executing))
        ]
        overtaking = min(queues, key=_next_end, default=None)
        if overtaking is not None and not has_narrow:
            self._early.add(overtaking.waiting[0])
        return overtaking

    def _dispatch_from(self, queue: Queue, now: float) -> None:
        ticket = queue.waiting.pop(0)
        self._leave_queue(queue, ticket)
        if queue.waiting:  # other queues with an equal time come first
            del self._nonempty[queue]
            self._nonempty[queue] = None
        self.counts.note_dispatch(self.progress, queue.next_start)
        self._execute(ticket, now)
        queue.bound()
        if ticket.on_start is not None:
            ticket.on_start()

    def _execute(self, ticket: Ticket, now: float) -> None:
        ticket.started = now
        self.executing.add(ticket)
        seats = ticket.work.seats
        self.seats_in_use += seats
        if seats > 1:
            self._wide_in_use += seats
        queue = ticket.queue
        if queue is not None:
            queue.executing += 1
            queue.next_start += ticket.work.total_work
        ticket.flow.series.dispatched += 1

    def seats_by_queue(self) -> Counter[Queue | None]:
        """Return the seats of the requests of each queue, and of what they left behind."""
        seats: Counter[Queue | None] = Counter()
        for ticket in (*self.executing, *self.lingering):
            seats[ticket.queue] += ticket.work.seats
        return seats

    def next_starts(self) -> Iterator[tuple[float, float]]:
        """Yield `next_start` of each queue with waiting requests, and the same less the estimated
        work of its requests that execute."""
        seats = self.seats_by_queue()
        for queue in self._nonempty:
            yield queue.next_start, queue.next_start - seats[queue] * EXECUTION_SECONDS


def _next_end(queue: Queue) -> float:
    return queue.next_start + queue.waiting[0].work.total_work


class QueueSetCounts:
    """What has happened in a level since its start.

    rejected            requests with 429, whatever the reason
    cancelled           those that waited before
    dispatch_progress   the progress at the last dispatch from a queue
    dispatch_start      the `next_start` of that queue
    """

    __slots__ = ("cancelled", "dispatch_progress", "dispatch_start", "rejected")

    def __init__(self) -> None:
        self.rejected = 0
        self.cancelled = 0
        self.dispatch_progress = 0.0
        self.dispatch_start = 0.0

    def note_dispatch(self, progress: float, start: float) -> None:
        """Note a dispatch from a queue."""
        self.dispatch_progress, self.dispatch_start = progress, start
