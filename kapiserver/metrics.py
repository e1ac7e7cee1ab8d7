"""Counters, gauges and histograms in memory: cheap to change, read when /metrics is scraped.

prometheus-client costs several microseconds for each labelled change and 85 ms to import.
`apiserver/serving/metrics/text.py` writes these numbers as text. Knows no metric's name.

Users choose some labels, such as the names of webhooks. `MAX_USER_SERIES` bounds the series of such
a metric: a new set of labels replaces the oldest one.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

Labels = TypeVar("Labels", bound=Hashable)

MAX_USER_SERIES = 2000
"""The sets of labels that a metric with names of users keeps."""


class Counter(Generic[Labels]):
    """A number for each set of labels, which only grows; at most `limit` sets, if given."""

    __slots__ = ("_limit", "values")

    def __init__(self, *, limit: int | None = None) -> None:
        self._limit = limit
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Count `amount` more."""
        number = self.values.get(labels)
        if number is None:
            _make_room(self.values, self._limit)
            number = 0
        self.values[labels] = number + amount


class Gauge(Counter[Labels]):
    """A number for each set of labels, which grows and shrinks."""

    __slots__ = ()

    def set(self, labels: Labels, value: float) -> None:
        """Replace the number."""
        self.values[labels] = value


class TimedGauge:
    """A number that grows and shrinks, and how long it had each value.

    value   the number, 0 or more
    """

    __slots__ = ("_seconds", "_since", "value")

    def __init__(self, now: float) -> None:
        self.value = 0
        self._seconds = [0.0]
        self._since = now

    def change(self, amount: int, now: float) -> None:
        """Add `amount` to the number; `now` is in seconds that only grow."""
        value, seconds = self.value, self._seconds
        seconds[value] += now - self._since
        self._since = now
        self.value = value = value + amount
        if value == len(seconds):
            seconds.append(0.0)

    def take_times(self, now: float) -> list[float]:
        """Return how long the number had each value, from 0 on, since the last call."""
        self.change(0, now)
        seconds, self._seconds = self._seconds, [0.0] * (self.value + 1)
        return seconds


class Observations:
    """The observations of one histogram for one set of labels.

    bounds  inclusive upper bounds of the buckets, ascending
    counts  the observations in each bucket alone; the last one is above all bounds
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        bounds = self.bounds
        # Most durations are in the first bucket.
        self.counts[0 if value <= bounds[0] else bisect_left(bounds, value)] += 1
        self.total += value

    def observe_times(self, value: float, times: int) -> None:
        """Count a value several times."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def observe_for(self, value: float, seconds: float) -> None:
        """Count a value once for each nanosecond of a time, as timing histograms do."""
        self.observe_times(value, int(seconds * 1e9))


class Histogram(Generic[Labels]):
    """Observations in buckets for each set of labels; `bounds` are inclusive and ascending. Keeps
    at most `limit` sets, if given."""

    __slots__ = ("_limit", "bounds", "values")

    def __init__(self, bounds: Sequence[float], *, limit: int | None = None) -> None:
        self._limit = limit
        self.bounds = tuple(bounds)
        self.values: dict[Labels, Observations] = {}

    def of(self, labels: Labels) -> Observations:
        """Return the observations of a set of labels."""
        observations = self.values.get(labels)
        if observations is None:
            _make_room(self.values, self._limit)
            observations = self.values[labels] = Observations(self.bounds)
        return observations

    def observe(self, labels: Labels, value: float) -> None:
        """Count one observation."""
        observations = self.values.get(labels) or self.of(labels)
        # As `Observations.observe`, without a call: each request observes ten values.
        bounds = self.bounds
        observations.counts[0 if value <= bounds[0] else bisect_left(bounds, value)] += 1
        observations.total += value


def content_hash(*contents: bytes) -> str:
    """Return the hash of one or several files, as kube-apiserver's metrics show it."""
    return f"sha256:{hashlib.sha256(b''.join(contents)).hexdigest()}"


class Reloads:
    """The reloads of one configuration of the server.

    counts  the reloads by status: "success" or "failure"
    times   the time of the last reload by status, in seconds since 1970
    hash    the hash of the configuration in force; "" if there is none
    """

    __slots__ = ("counts", "hash", "times")

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.times: Gauge[str] = Gauge()
        self.hash = ""

    def succeed(self, now: float, content_hash: str) -> None:
        """Count a reload, with the hash of the content that is in force from now on."""
        self._count("success", now)
        self.hash = content_hash

    def fail(self, now: float) -> None:
        """Count a reload that changed nothing because of an error."""
        self._count("failure", now)

    def _count(self, status: str, now: float) -> None:
        self.counts.add(status)
        self.times.set(status, now)


def _make_room(values: dict[Labels, Any], limit: int | None) -> None:
    """Remove the oldest set of labels if there is no room for another."""
    if limit is not None and len(values) >= limit:
        del values[next(iter(values))]
