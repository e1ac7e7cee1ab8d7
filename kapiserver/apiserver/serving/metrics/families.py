"""Makes families of metrics from counters, gauges and histograms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.metrics import Counter, Histogram


def numbers(
    type: Literal["counter", "gauge"],
    name: str,
    text: str,
    labels: Sequence[str],
    counter: Counter[Any],
) -> Family:
    """Return a family of numbers whose labels are strings or tuples of strings; the label of a
    number without labels is not written."""
    series = [
        (values_of(label_values) if labels else (), value)
        for label_values, value in counter.values.items()
    ]
    return Family(name=name, type=type, text=text, labels=labels, series=series)


def counts(name: str, text: str, labels: Sequence[str], histogram: Histogram[Any]) -> Family:
    """Return a family with the number of observations of a histogram."""
    values = [
        (values_of(label_values), sum(seconds.counts))
        for label_values, seconds in histogram.values.items()
    ]
    return Family(name=name, type="counter", text=text, labels=labels, series=values)


def histogram(name: str, text: str, labels: Sequence[str], observed: Histogram[Any]) -> Family:
    """Return a family of histograms; the label of one without labels is not written."""
    series = [
        (values_of(label_values) if labels else (), observations)
        for label_values, observations in observed.values.items()
    ]
    return Family(
        name=name,
        type="histogram",
        text=text,
        labels=labels,
        series=series,
        bounds=observed.bounds,
    )


def values_of(labels: str | Sequence[str]) -> Sequence[str]:
    """Return the values of labels, of which a string is the only one."""
    return (labels,) if isinstance(labels, str) else labels
