"""Priority and fairness: which requests execute now, which wait, and which are rejected.

`FlowControl` follows the FlowSchemas and PriorityLevelConfigurations of the store. A request comes
to `begin`, which classifies it, estimates its work and asks the queues of its priority level; `end`
gives its seats back. Every ten seconds, and after each change of an object, the seats of the server
are divided again: levels lend what they do not use.

`begin` and `end` are on the way of every request, and take about 3 us together (decision 143). So
metrics are integers and sums until they are read, and what depends on the user and the kind of a
request is looked up once (`flow_of`). Each server of several decides for itself, as kube-apiservers
do. Mirrors util/flowcontrol/apf_controller.go and apf_filter.go of k8s.io/apiserver (KEP-1040).
"""

from __future__ import annotations

import asyncio
import functools
import logging
import weakref
from bisect import bisect_left
from collections.abc import Callable, Hashable, Sequence

from kapiserver.api.errors import NotRegistered
from kapiserver.api.types import Tree
from kapiserver.apiserver.config import FeatureSettings, LimitSettings
from kapiserver.apiserver.flowcontrol import bootstrap
from kapiserver.apiserver.flowcontrol.allocation import allocate
from kapiserver.apiserver.flowcontrol.bootstrap import FLOWCONTROL
from kapiserver.apiserver.flowcontrol.flow_series import FlowSeries
from kapiserver.apiserver.flowcontrol.matching import matches
from kapiserver.apiserver.flowcontrol.priority_level import (
    PriorityLevel,
    read_spec,
    rounded,
)
from kapiserver.apiserver.flowcontrol.queue_set import Flow, Ticket
from kapiserver.apiserver.flowcontrol.shuffle_sharding import deal, hash_flow
from kapiserver.apiserver.flowcontrol.watch_tracker import WatchTracker
from kapiserver.apiserver.flowcontrol.work_estimate import (
    ONE_SEAT,
    ListEstimator,
    ObjectStats,
    WorkEstimate,
    estimate_write,
)
from kapiserver.apiserver.flowcontrol.write_rounds import WriteRounds
from kapiserver.apiserver.metrics import Metrics, RequestKinds
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User
from kapiserver.storage.concurrency.clock import Clock, MonotonicClock, Timer
from kapiserver.storage.concurrency.subscriptions import Subscription
from kapiserver.storage.objects.informer import ObjectChange
from kapiserver.storage.objects.store_registry import StoreRegistry

PERIOD_SECONDS = 10.0
"""The time between two divisions of the seats."""
SCHEMA_HEADER = "X-Kubernetes-Pf-Flowschema-Uid"
LEVEL_HEADER = "X-Kubernetes-Pf-Prioritylevel-Uid"
_MAX_CACHED_PATH = 512
"""Letters of the path of a request whose flow is cached."""
_WRITES = frozenset(("create", "update", "patch", "delete"))
_LISTS = frozenset(("list", "watch"))

_log = logging.getLogger(__name__)


class FlowControl:
    """The priority levels of one server, and the requests that execute and wait in them.

    levels          the levels by name
    watches         the open watches
    write_rounds    in which round of the event loop a write begins
    fair_fraction   the part of its demand that the last division gave a level
    """

    def __init__(
        self,
        stores: StoreRegistry,
        kinds: RequestKinds,
        *,
        seats: int,
        by_size: bool = True,
        has_suggested: bool = False,
        clock: Clock | None = None,
    ) -> None:
        """Take the seats of the server, and the metrics of requests by kind. `by_size` says whether
        lists count by the bytes of their objects, `has_suggested` whether a new store will get the
        suggested objects. The time of the clock must only grow; None is a MonotonicClock."""
        self._stores = stores
        self._seats = seats
        self._clock = clock or MonotonicClock()
        self._now = self._clock.now
        self._schemas = stores.by_name(FLOWCONTROL, "flowschemas").informer
        self._levels = stores.by_name(FLOWCONTROL, "prioritylevelconfigurations").informer
        self._suggested_levels = [*bootstrap.SUGGESTED_LEVELS] if has_suggested else []
        self._suggested_schemas = [*bootstrap.SUGGESTED_SCHEMAS] if has_suggested else []
        self._subscriptions: list[Subscription] = []
        self._timer: Timer | None = None
        self._is_stale = True
        """Whether objects have changed since they were read."""
        self._in_precedence: Sequence[Tree] = ()
        self._cached = _cached(weakref.WeakMethod(self._find_flow))
        self._list_estimator = ListEstimator(functools.partial(_stats_of, stores), by_size=by_size)
        self.levels: dict[str, PriorityLevel] = {}
        self.watches = WatchTracker()
        self.write_rounds = WriteRounds(self._now)
        self._kinds = kinds
        self.fair_fraction = 0.0
        self._read_objects()

    def start(self) -> None:
        """Follow the objects, and divide the seats from time to time."""
        for informer in (self._schemas, self._levels):
            self._subscriptions.append(informer.subscribe(self._on_change))
        self._timer = self._clock.call_later(PERIOD_SECONDS, self._divide_regularly)

    def stop(self) -> None:
        """End both."""
        for subscription in self._subscriptions:
            subscription.cancel()
        if self._timer is not None:
            self._timer.cancel()

    # The way of a request.

    def begin(self, request: Request) -> Ticket:
        """Return the ticket of a request, which has started, waits, or is rejected."""
        info = request.info
        flow = self.flow_of(request.user, info)
        now = self._now()
        work = ONE_SEAT if info.verb == "get" else self._estimate(flow, request)
        ticket = Ticket(flow, request.user, info, work, now, flow.headers)
        flow.queue_set.start(ticket, now)
        if ticket.started is not None:
            flow.kind.executing.change(1, now)
        elif not ticket.rejection:
            flow.kind.waiting.change(1, now)
        return ticket

    def complete(self, request: Request) -> None:
        """Give the seats of a request back whose response is written."""
        assert isinstance(request.ticket, Ticket)
        self.end(request.ticket)

    def end(self, ticket: Ticket) -> None:
        """Give the seats of a request back that executes. Idempotent."""
        if ticket.started is None or ticket.seconds is not None:
            return
        flow, now = ticket.flow, self._now()
        seconds, series = flow.queue_set.finish(ticket, now), flow.series
        is_watch = ticket.info.verb == "watch"
        observations = series.watch_seconds if is_watch else series.execution_seconds
        # As `Observations.observe`, without a call.
        bounds = observations.bounds
        observations.counts[0 if seconds <= bounds[0] else bisect_left(bounds, seconds)] += 1
        observations.total += seconds
        flow.kind.executing.change(-1, now)

    def end_wait(self, ticket: Ticket) -> float:
        """Note that a request that has waited executes, and return the seconds that it waited."""
        now = self._now()
        seconds = now - ticket.arrived
        ticket.flow.series.waits.observe(seconds)
        kind = ticket.flow.kind
        kind.waiting.change(-1, now)
        kind.executing.change(1, now)
        return seconds

    def cancel(self, ticket: Ticket) -> None:
        """Reject a request that waits."""
        now = self._now()
        ticket.flow.queue_set.cancel(ticket)
        ticket.flow.series.failed_waits.observe(now - ticket.arrived)
        ticket.flow.kind.waiting.change(-1, now)

    def flow_of(self, user: User, info: RequestInfo) -> Flow:
        """Return the flow of a request."""
        if self._is_stale:
            self._read_objects()
        path = "" if info.resource else info.path
        find = self._cached if len(info.path) <= _MAX_CACHED_PATH else self._find_flow
        return find(
            user.name, user.groups, info.verb, info.version.group, info.resource,
            info.subresource, info.namespace, path,
        )  # fmt: skip

    def _estimate(self, flow: Flow, request: Request) -> WorkEstimate:
        info, series = request.info, flow.series
        if info.verb in _WRITES:
            watches = self.watches.count_watches(info)
            if not watches:
                series.writes += 1
                return ONE_SEAT
            series.watches.observe(watches)
            estimate = estimate_write(info, watches, flow.max_seats)
        elif info.verb in _LISTS:
            estimate = self._list_estimator.estimate(info, request.query, flow.max_seats)
        else:
            return ONE_SEAT
        if estimate is not ONE_SEAT:
            series.wide.observe(estimate.seats)
        return estimate

    # The objects.

    def _on_change(self, _change: ObjectChange) -> None:
        if not self._is_stale:
            self._is_stale = True
            # Also without a request: others may wait for the seats of a level.
            asyncio.get_running_loop().call_soon(self._read_if_stale)

    def _read_if_stale(self) -> None:
        if self._is_stale:
            self._read_objects()

    def _read_objects(self) -> None:
        """Read all objects and configure the levels. Unusable ones count as missing, and the
        mandatory ones are there in any case. A store without any is new: the suggested ones count,
        which a controller is about to create."""
        self._is_stale = False
        trees = [entry.tree() for entry in self._levels.lister.list()] or self._suggested_levels
        specs = {tree["metadata"]["name"]: read_spec(tree) for tree in trees}
        for tree in bootstrap.MANDATORY_LEVELS:
            if specs.get(tree["metadata"]["name"]) is None:
                specs[tree["metadata"]["name"]] = read_spec(tree)
        usable = {name for name, spec in specs.items() if spec is not None}
        for name, level in self.levels.items():
            level.quiescing = name not in usable
        self._remove_drained()
        for name, spec in specs.items():
            if spec is not None:
                level = self.levels.get(name) or self._add_level(name)
                level.configure(spec)
        self._in_precedence = self._schemas_of(usable)
        self._set_shares()
        self._divide()

    def _add_level(self, name: str) -> PriorityLevel:
        level = self.levels[name] = PriorityLevel(name, self._clock.call_later, self._now)
        return level

    def _schemas_of(self, levels: set[str]) -> Sequence[Tree]:
        """Return the FlowSchemas of these levels in the order in which they are tried."""
        trees = [entry.tree() for entry in self._schemas.lister.list()] or self._suggested_schemas
        by_name = {tree["metadata"]["name"]: tree for tree in trees if _level_name(tree) in levels}
        for tree in bootstrap.MANDATORY_SCHEMAS:
            by_name.setdefault(tree["metadata"]["name"], tree)
        return sorted(by_name.values(), key=_precedence)

    def _find_flow(
        self,
        user: str,
        groups: Sequence[str],
        verb: str,
        group: str,
        resource: str,
        subresource: str,
        namespace: str,
        path: str,
    ) -> Flow:
        if subresource:
            resource = f"{resource}/{subresource}"
        request = (user, groups, verb, group, resource, namespace, path)
        schema = next(
            (schema for schema in self._in_precedence if matches(schema, *request)),
            self._in_precedence[-1],  # catch-all has the last precedence
        )
        name, spec = schema["metadata"]["name"], schema["spec"]
        level = self.levels[_level_name(schema)]
        distinguisher = ""
        hand: tuple[int, ...] = (0,)
        if level.spec.queues > 1:
            method = (spec.get("distinguisherMethod") or {}).get("type") or ""
            distinguisher = {"ByUser": user, "ByNamespace": namespace}.get(method, "")
            value = hash_flow(name, distinguisher)
            hand = deal(value, level.spec.queues, level.spec.hand_size)
        return Flow(
            schema=name,
            level=level.name,
            distinguisher=distinguisher,
            queue_set=level.queue_set,
            hand=hand,
            max_seats=level.max_seats,
            retry_after=level.retry_after,
            series=level.series.setdefault(name, FlowSeries()),
            kind=self._kinds.of(verb),
            headers=_headers(level.spec.uid, schema["metadata"].get("uid") or ""),
        )

    # The seats.

    def _divide_regularly(self) -> None:
        self._timer = self._clock.call_later(PERIOD_SECONDS, self._divide_regularly)
        if self._remove_drained():
            self._set_shares()
        self._divide()

    def _remove_drained(self) -> bool:
        """Remove levels that have neither an object nor requests; return whether there were any."""
        count = len(self.levels)
        self.levels = {
            name: level
            for name, level in self.levels.items()
            if not level.quiescing or not level.queue_set.is_idle
        }
        return len(self.levels) < count

    def _set_shares(self) -> None:
        shares = sum(level.spec.shares for level in self.levels.values())
        for level in self.levels.values():
            level.set_share(self._seats, shares)
        self._cached.cache_clear()  # flows know the most seats of a request

    def now(self) -> float:
        """Return the time of tickets and queues, in seconds since some moment."""
        return self._now()

    def flush_usage(self) -> None:
        """Bring the metrics up to date that are computed when they are read."""
        levels = self.levels.values()
        for level in levels:
            level.queue_set.sync_now()
            level.queue_set.usage.flush()
            level.count_seats()
        nominal = sum(level.nominal for level in levels)
        places = sum(level.spec.queues * level.spec.queue_length for level in levels)
        for kind in (self._kinds.reading, self._kinds.mutating):
            kind.flush(self._now(), max(1, nominal), max(1, places))

    def _divide(self) -> None:
        """Give each level its seats for the next period: as much of its demand as of the demand of
        others, within its bounds; exempt levels get what they have used."""
        total = sum(level.nominal for level in self.levels.values())
        for level in self.levels.values():
            level.end_period()
        exempt = [level for level in self.levels.values() if level.spec.is_exempt]
        limited = [level for level in self.levels.values() if not level.spec.is_exempt]
        for level in exempt:
            level.target = level.least
            level.set_current(level.least, self._seats)
        left = total - sum(level.least for level in exempt)
        for level, seats in zip(limited, self._limits(limited, total, left), strict=True):
            level.target = level.bounds().target
            level.set_current(seats, self._seats)

    def _limits(self, levels: Sequence[PriorityLevel], total: int, left: int) -> list[int]:
        lower, least = sum(level.lower for level in levels), sum(level.least for level in levels)
        self.fair_fraction = 0.0
        if left <= lower:
            return [level.lower for level in levels]
        if left <= least:
            part = (left - lower) / (least - lower)
            return [level.lower + rounded((level.least - level.lower) * part) for level in levels]
        try:
            allocation = allocate(total, [level.bounds() for level in levels])
        except ValueError:
            _log.exception("the seats of priority levels stay as they are")
            return [level.current for level in levels]
        self.fair_fraction = allocation.fair_fraction
        return [rounded(seats) for seats in allocation.seats]


def _level_name(schema: Tree) -> str:
    name: str = schema["spec"]["priorityLevelConfiguration"]["name"]
    return name


def _precedence(schema: Tree) -> tuple[int, str]:
    return (schema["spec"].get("matchingPrecedence") or 0, schema["metadata"]["name"])


def _headers(level_uid: str, schema_uid: str) -> tuple[tuple[str, str], ...]:
    """Return the headers of a flow; none while its objects are not stored."""
    pairs = ((LEVEL_HEADER, level_uid), (SCHEMA_HEADER, schema_uid))
    return tuple(pair for pair in pairs if pair[1])


def make_flow_control(
    limits: LimitSettings, features: FeatureSettings, stores: StoreRegistry, metrics: Metrics
) -> FlowControl | None:
    """Return what queues requests; None if it is off. Raises ValueError if there are no seats."""
    if not limits.enable_priority_and_fairness:
        return None
    reading, mutating = limits.max_requests_inflight, limits.max_mutating_requests_inflight
    if reading + mutating <= 0:
        raise ValueError(
            f"invalid configuration: MaxRequestsInFlight={reading} and "
            f"MaxMutatingRequestsInFlight={mutating}; they must add up to something positive"
        )
    return FlowControl(
        stores,
        metrics.in_flight,
        seats=reading + mutating,
        by_size="SizeBasedListCostEstimate" in features.feature_gates,
        has_suggested=True,
    )


def _cached(
    find: weakref.WeakMethod[Callable[..., Flow]],
) -> functools._lru_cache_wrapper[Flow]:
    """Cache the last results of a method of an object that has the cache. The cache does not keep
    the object alive."""

    @functools.lru_cache(maxsize=1024)
    def find_cached(*request: Hashable) -> Flow:
        method = find()
        assert method is not None
        return method(*request)

    return find_cached


def _stats_of(stores: StoreRegistry, info: RequestInfo) -> ObjectStats | None:
    try:
        store = stores.by_name(info.version, info.resource)
    except NotRegistered:
        return None
    cache = store.cache
    return ObjectStats(cache.count, cache.average_bytes())
