"""The metrics of priority and fairness as families of the exposition.

The names, types, labels and buckets are those of kube-apiserver
(util/flowcontrol/metrics/metrics.go of k8s.io/apiserver). What every request of a series has in
common, such as one seat, is added here and not when the request comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from kapiserver.apiserver.flowcontrol.flow_control import FlowControl
from kapiserver.apiserver.flowcontrol.flow_series import (
    QUEUE_LENGTHS,
    REQUEST_SECONDS,
    SEATS,
    WATCHES,
    FlowSeries,
)
from kapiserver.apiserver.flowcontrol.priority_level import PriorityLevel
from kapiserver.apiserver.flowcontrol.seat_usage import (
    DEMAND_BOUNDS,
    REQUEST_BOUNDS,
    SEAT_BOUNDS,
)
from kapiserver.apiserver.metrics import KIND_USE, RequestKinds
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.metrics import Observations

_PREFIX = "apiserver_flowcontrol_"
_LEVEL, _SCHEMA = "priority_level", "flow_schema"
_LevelNumber: TypeAlias = Callable[[PriorityLevel], float]
_Series: TypeAlias = list[tuple[PriorityLevel, str, FlowSeries]]
_Row: TypeAlias = tuple[tuple[str, ...], Observations]

_LEVEL_GAUGES: Sequence[tuple[str, str, _LevelNumber]] = (
    ("nominal_limit_seats", "Seats of a level by its shares.", lambda level: level.nominal),
    ("lower_limit_seats", "Seats that a level keeps in any case.", lambda level: level.lower),
    ("upper_limit_seats", "Seats of a level with what it may borrow.", lambda level: level.upper),
    ("current_limit_seats", "Seats of a level at present.", lambda level: level.current),
    ("target_seats", "Seats that the last division aimed at.", lambda level: level.target),
    (
        "demand_seats_high_watermark",
        "The most seats that a level demanded in the last period.",
        lambda level: level.demand.high,
    ),
    (
        "demand_seats_average",
        "Seats that a level demanded in the last period on average.",
        lambda level: level.demand.average,
    ),
    (
        "demand_seats_stdev",
        "Standard deviation of the seats that a level demanded in the last period.",
        lambda level: level.demand.deviation,
    ),
    ("demand_seats_smoothed", "Smoothed demand of a level.", lambda level: level.smoothed),
    (
        "current_r",
        "Seat-seconds that each busy queue has got in the imagined world.",
        lambda level: level.queue_set.progress,
    ),
    (
        "dispatch_r",
        "The same at the last dispatch of a waiting request.",
        lambda level: level.queue_set.counts.dispatch_progress,
    ),
    (
        "latest_s",
        "Start of the request that was dispatched last, in the imagined world.",
        lambda level: level.queue_set.counts.dispatch_start,
    ),
)

_SERIES_NUMBERS: Sequence[tuple[str, str, str, Callable[[FlowSeries], float]]] = (
    (
        "counter",
        "dispatched_requests_total",
        "Requests that began to execute.",
        lambda series: series.dispatched,
    ),
    (
        "gauge",
        "current_executing_requests",
        "Requests that execute; watches only while they start.",
        lambda series: series.executing,
    ),
    (
        "gauge",
        "current_executing_seats",
        "Seats of the requests that execute.",
        lambda series: series.seats,
    ),
    (
        "gauge",
        "current_inqueue_requests",
        "Requests that wait in queues.",
        lambda series: series.waiting,
    ),
    (
        "gauge",
        "current_inqueue_seats",
        "Seats of the requests that wait in queues.",
        lambda series: series.seats_waiting,
    ),
    (
        "counter",
        "request_dispatch_no_accommodation_total",
        "How often the next request needed more seats than were free.",
        lambda series: series.not_accommodated,
    ),
)


def flow_control_families(flow_control: FlowControl, kinds: RequestKinds) -> Iterator[Family]:
    """Yield the families of priority and fairness."""
    flow_control.flush_usage()
    levels = list(flow_control.levels.values())
    series = [
        (level, name, flow_series) for level in levels for name, flow_series in level.series.items()
    ]
    yield from _level_families(levels)
    yield Family(
        name=f"{_PREFIX}seat_fair_frac",
        type="gauge",
        text="Part of their demand that levels got in the last division.",
        series=[((), flow_control.fair_fraction)],
    )
    yield Family(
        name="apiserver_current_inqueue_requests",
        type="gauge",
        text="Requests that wait in queues, by what they do.",
        labels=("request_kind",),
        series=[((kind.kind,), kind.waiting.value) for kind in (kinds.mutating, kinds.reading)],
    )
    yield from _series_families(series)
    yield from _series_histograms(series)
    yield from _use_families(levels, kinds)


def _level_families(levels: Sequence[PriorityLevel]) -> Iterator[Family]:
    for name, text, number in _LEVEL_GAUGES:
        yield Family(
            name=_PREFIX + name,
            type="gauge",
            text=text,
            labels=(_LEVEL,),
            series=[((level.name,), number(level)) for level in levels],
        )
    bounds = [
        (level.name, list(level.queue_set.next_starts()))
        for level in levels
        if level.queue_set.waiting
    ]
    for index, name, text in (
        (0, "next_s_bounds", "Least and greatest start of the next requests of queues."),
        (1, "next_discounted_s_bounds", "The same without the work in progress."),
    ):
        yield Family(
            name=_PREFIX + name,
            type="gauge",
            text=text,
            labels=(_LEVEL, "bound"),
            series=[
                ((level, bound.__name__), bound(start[index] for start in starts))
                for level, starts in bounds
                for bound in (min, max)
            ],
        )


def _series_families(series: _Series) -> Iterator[Family]:
    for kind, name, text, number in _SERIES_NUMBERS:
        yield Family(
            name=_PREFIX + name,
            type="counter" if kind == "counter" else "gauge",
            text=text,
            labels=(_LEVEL, _SCHEMA),
            series=[
                ((level.name, schema), number(flow_series)) for level, schema, flow_series in series
            ],
        )
    yield Family(
        name=f"{_PREFIX}rejected_requests_total",
        type="counter",
        text="Requests that were rejected, by reason.",
        labels=(_LEVEL, _SCHEMA, "reason"),
        series=[
            ((level.name, schema, reason), count)
            for level, schema, flow_series in series
            for reason, count in flow_series.rejected.values.items()
        ],
    )


def _series_histograms(series: _Series) -> Iterator[Family]:
    labels = (_LEVEL, _SCHEMA)
    executions: list[_Row] = []
    waits: list[_Row] = []
    for level, schema, flow_series in series:
        names = (level.name, schema)
        executions.append(((*names, "regular"), flow_series.execution_seconds))
        executions.append(((*names, "watch"), flow_series.watch_seconds))
        if not level.spec.is_exempt:
            waits.append(((*names, "true"), _with_zeros(flow_series.waits, flow_series.dispatched)))
            waits.append(((*names, "false"), flow_series.failed_waits))
    yield _histogram(
        "request_execution_seconds",
        "Seconds that requests executed; watches until they had started.",
        (*labels, "type"),
        executions,
        REQUEST_SECONDS,
    )
    yield _histogram(
        "request_wait_duration_seconds",
        "Seconds that requests waited in queues.",
        (*labels, "execute"),
        waits,
        REQUEST_SECONDS,
    )
    yield _histogram(
        "request_queue_length_after_enqueue",
        "Length of its queue, as each request saw it.",
        labels,
        [
            ((level.name, schema), _with_ones(flow_series.queue_lengths, _placed(flow_series)))
            for level, schema, flow_series in series
            if level.spec.queues
        ],
        QUEUE_LENGTHS,
    )
    yield _histogram(
        "work_estimated_seats",
        "Estimated seats of requests.",
        labels,
        [
            ((level.name, schema), _with_ones(flow_series.wide, _estimated(flow_series)))
            for level, schema, flow_series in series
        ],
        SEATS,
    )
    yield _histogram(
        "watch_count_samples",
        "Watches that may get the event of a write.",
        labels,
        [
            (
                (level.name, schema),
                _with_zeros(
                    flow_series.watches, flow_series.writes + sum(flow_series.watches.counts)
                ),
            )
            for level, schema, flow_series in series
        ],
        WATCHES,
    )


def _use_families(levels: Sequence[PriorityLevel], kinds: RequestKinds) -> Iterator[Family]:
    yield _histogram(
        "priority_level_seat_utilization",
        "Nanoseconds by the part of a level's seats that was taken.",
        ("phase", _LEVEL),
        [(("executing", level.name), level.queue_set.usage.seat_use) for level in levels],
        SEAT_BOUNDS,
    )
    yield _histogram(
        "priority_level_request_utilization",
        "Nanoseconds by the number of requests as a part of the limit.",
        ("phase", _LEVEL),
        [
            row
            for level in levels
            for row in (
                (("executing", level.name), level.queue_set.usage.executing_use),
                (("waiting", level.name), level.queue_set.usage.waiting_use),
            )
        ],
        REQUEST_BOUNDS,
    )
    yield _histogram(
        "demand_seats",
        "Nanoseconds by the demanded seats as a part of the level's seats.",
        (_LEVEL,),
        [((level.name,), level.queue_set.usage.demand_ratio) for level in levels],
        DEMAND_BOUNDS,
    )
    yield _histogram(
        "read_vs_write_current_requests",
        "Nanoseconds by the number of requests as a part of the limit.",
        ("phase", "request_kind"),
        [
            row
            for kind in (kinds.reading, kinds.mutating)
            for row in (
                (("executing", kind.kind), kind.executing_use),
                (("waiting", kind.kind), kind.waiting_use),
            )
        ],
        KIND_USE,
    )


def _histogram(
    name: str,
    text: str,
    labels: Sequence[str],
    rows: Sequence[_Row],
    bounds: Sequence[float],
) -> Family:
    series = [row for row in rows if any(row[1].counts)]
    return Family(
        name=_PREFIX + name, type="histogram", text=text, labels=labels, series=series,
        bounds=bounds,
    )  # fmt: skip


def _placed(series: FlowSeries) -> int:
    """Return how many requests joined a queue, those included that left it at once."""
    return series.dispatched - sum(series.waits.counts) + sum(series.queue_lengths.counts)


def _estimated(series: FlowSeries) -> int:
    return series.dispatched + series.waiting + int(sum(series.rejected.values.values()))


def _with_zeros(observations: Observations, total: int) -> Observations:
    """Return observations with as many values of 0 as `total` has more than they."""
    return _with_more(observations, total, 0)


def _with_ones(observations: Observations, total: int) -> Observations:
    """Return observations with as many values of 1 as `total` has more than they."""
    return _with_more(observations, total, 1)


def _with_more(observations: Observations, total: int, value: int) -> Observations:
    more = max(0, total - sum(observations.counts))
    result = Observations(observations.bounds)
    result.observe(value)
    result.counts = [
        count * more + observed
        for count, observed in zip(result.counts, observations.counts, strict=True)
    ]
    result.total = observations.total + value * more
    return result
