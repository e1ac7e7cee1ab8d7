"""Counters, gauges and histograms in memory: cheap to change, read when /metrics is scraped.

prometheus-client costs several microseconds for each labelled change and 85 ms to import, so it
only writes the exposition (`apiserver/serving/exposition.py`). Knows no metric's name.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

Labels = TypeVar("Labels", bound=Hashable)


class Counter(Generic[Labels]):
    """A number for each set of labels, which only grows."""

    __slots__ = ("values",)

    def __init__(self) -> None:
        self.values: dict[Labels, float] = {}

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Count `amount` more."""
        self.values[labels] = self.values.get(labels, 0) + amount


class Gauge(Counter[Labels]):
    """A number for each set of labels, which grows and shrinks."""

    __slots__ = ()

    def set(self, labels: Labels, value: float) -> None:
        """Replace the number."""
        self.values[labels] = value


class Observations:
    """The observations of one histogram for one set of labels.

    bounds  inclusive upper bounds of the buckets, ascending
    counts  of observations in each bucket alone, the last one above all bounds
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def observe(self, value: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def add(self, other: Observations) -> None:
        """Add the observations of a histogram with the same buckets."""
        self.counts = [
            count + added_count
            for count, added_count in zip(self.counts, other.counts, strict=True)
        ]
        self.total += other.total


class Histogram(Generic[Labels]):
    """Observations in buckets for each set of labels; `bounds` are inclusive and ascending."""

    __slots__ = ("bounds", "values")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.values: dict[Labels, Observations] = {}

    def observe(self, labels: Labels, value: float) -> None:
        """Count one observation."""
        observations = self.values.get(labels)
        if observations is None:
            observations = self.values[labels] = Observations(self.bounds)
        # As `Observations.observe`, without a call: each request observes ten values.
        observations.counts[bisect_left(self.bounds, value)] += 1
        observations.total += value
