"""The pages that show priority levels, queues and requests as they are.

Mirrors apf_controller_debug.go of util/flowcontrol of k8s.io/apiserver, whose columns an
administrator's scripts may read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TypeAlias

from kapiserver.api.scalar_types import format_duration
from kapiserver.apiserver.flowcontrol.flow_control import FlowControl
from kapiserver.apiserver.flowcontrol.queue_set import Queue, Ticket
from kapiserver.apiserver.request import Query
from kapiserver.storage.concurrency.clock import Clock

_MIN_WIDTH = 8
_NO_TIME = "0001-01-01T00:00:00Z"
_Row: TypeAlias = Sequence[str]


class _Times:
    """Converts times of flow control to dates."""

    def __init__(self, flow_control: FlowControl, wall_clock: Clock) -> None:
        self._offset = wall_clock.now() - flow_control.now()

    def text(self, time: float | None) -> str:
        if time is None:
            return _NO_TIME
        moment = datetime.fromtimestamp(time + self._offset, UTC)
        fraction = f".{moment.microsecond:06}".rstrip("0").rstrip(".")
        return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"


def dump_priority_levels(flow_control: FlowControl, _query: Query, _clock: Clock) -> str:
    """Return a line for each priority level."""
    rows: list[_Row] = [
        (
            "PriorityLevelName", "ActiveQueues", "IsIdle", "IsQuiescing", "WaitingRequests",
            "ExecutingRequests", "DispatchedRequests", "RejectedRequests", "TimedoutRequests",
            "CancelledRequests",
        )
    ]  # fmt: skip
    for name, level in sorted(flow_control.levels.items()):
        queue_set = level.queue_set
        active = sum(1 for queue in queue_set.all_queues if queue.waiting)
        dispatched = sum(series.dispatched for series in level.series.values())
        counts = queue_set.counts
        numbers = (
            queue_set.waiting, len(queue_set.executing), dispatched, counts.rejected, 0,
            counts.cancelled,
        )  # fmt: skip
        booleans = (_bool(queue_set.is_idle), _bool(level.quiescing))
        rows.append((name, str(active), *booleans, *map(str, numbers)))
    return _table(rows)


def dump_queues(flow_control: FlowControl, _query: Query, _clock: Clock) -> str:
    """Return a line for each queue."""
    rows: list[_Row] = [
        (
            "PriorityLevelName", "Index", "PendingRequests", "ExecutingRequests", "SeatsInUse",
            "NextDispatchR", "InitialSeatsSum", "MaxSeatsSum", "TotalWorkSum",
        )
    ]  # fmt: skip
    for name, level in sorted(flow_control.levels.items()):
        seats = level.queue_set.seats_by_queue()
        for index, queue in enumerate(level.queue_set.all_queues):
            initial = sum(ticket.work.initial_seats for ticket in queue.waiting)
            most = sum(ticket.work.seats for ticket in queue.waiting)
            numbers = (index, len(queue.waiting), queue.executing, seats[queue])
            rows.append(
                (
                    name, *map(str, numbers), _seat_seconds(queue.next_start), str(initial),
                    str(most), _seat_seconds(queue.work_waiting),
                )
            )  # fmt: skip
    return _table(rows)


def dump_requests(flow_control: FlowControl, query: Query, clock: Clock) -> str:
    """Return a line for each request that waits or executes. `includeRequestDetails` adds what it
    asks for."""
    has_details = bool((query.get("includeRequestDetails") or [""])[0])
    header = [
        "PriorityLevelName", "FlowSchemaName", "QueueIndex", "RequestIndexInQueue",
        "FlowDistingsher", "ArriveTime", "InitialSeats", "FinalSeats", "AdditionalLatency",
        "StartTime",
    ]  # fmt: skip
    if has_details:
        header += [
            "UserName", "Verb", "APIPath", "Namespace", "Name", "APIVersion", "Resource",
            "SubResource",
        ]  # fmt: skip
    times = _Times(flow_control, clock)
    rows: list[_Row] = [header]
    for name, level in sorted(flow_control.levels.items()):
        queues = level.queue_set.all_queues
        for queue_index, index, ticket in _places(queues, level.queue_set.executing):
            work = ticket.work
            row = [
                name, ticket.flow.schema, str(queue_index), str(index), ticket.flow.distinguisher,
                times.text(ticket.arrived), str(work.initial_seats), str(work.final_seats),
                format_duration(round(work.final_seconds * 1e9)), times.text(ticket.started),
            ]  # fmt: skip
            rows.append(row + _details(ticket) if has_details else row)
    return _table(rows)


def _places(
    queues: Sequence[Queue], executing: Iterable[Ticket]
) -> Iterator[tuple[int, int, Ticket]]:
    """Yield the index of its queue, the index in it, and each request; -1 for none."""
    index_of = {queue: index for index, queue in enumerate(queues)}
    for queue_index, queue in enumerate(queues):
        for index, ticket in enumerate(queue.waiting):
            yield queue_index, index, ticket
    for ticket in executing:
        yield index_of.get(ticket.queue, -1) if ticket.queue is not None else -1, -1, ticket


def _details(ticket: Ticket) -> list[str]:
    info = ticket.info
    group, version = info.version
    return [
        ticket.user.name, info.verb, info.path, info.namespace, info.name,
        f"{group}/{version}" if group else version, info.resource, info.subresource,
    ]  # fmt: skip


def _seat_seconds(value: float) -> str:
    whole, fraction = divmod(round(max(0.0, value) * 1e8), 10**8)
    return f"{whole}.{fraction:08}ss"


def _bool(value: bool) -> str:
    return "true" if value else "false"


def _table(rows: Sequence[_Row]) -> str:
    """Return rows in columns, as text/tabwriter of Go aligns them: cells end with a comma, and are
    padded, except in the last one."""
    cells = [[*(f"{text}," for text in row[:-1]), row[-1]] for row in rows]
    widths = [
        max(_MIN_WIDTH, *(len(row[column]) + 1 for row in cells))
        for column in range(len(rows[0]) - 1)
    ]
    lines = (
        [*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1], "\n"]
        for row in cells
    )
    return "".join(text for line in lines for text in line)


DUMPS: Mapping[str, Callable[[FlowControl, Query, Clock], str]] = {
    "dump_priority_levels": dump_priority_levels,
    "dump_queues": dump_queues,
    "dump_requests": dump_requests,
}
"""The pages by the last segment of their paths."""
