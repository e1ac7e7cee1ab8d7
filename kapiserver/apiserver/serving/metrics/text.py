"""Writes families of metrics in the Prometheus text format.

Prometheus scrapes a server every few seconds, and a server with 1,000 resources has half a million
lines. A line of its own for each number would take seconds of CPU, so that a histogram with all its
buckets is one template, filled in by one format operation. The text is made piece by piece, as the
client reads it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from itertools import accumulate
from typing import Literal, TypeAlias

from msgspec import Struct

from kapiserver.api.go_format import go_value
from kapiserver.apiserver.serving.metrics.stability import stability_of
from kapiserver.metrics import Observations
from kapiserver.storage.concurrency.time_slice import TimeSlice

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PIECE_CHARACTERS = 256 * 1024
"""The least length of each piece of text except the last one."""

Labels: TypeAlias = Sequence[str]
_PLACE = "\0"
"""Stands for the labels in the template of a histogram."""


class Family(Struct, frozen=True, kw_only=True):
    """A metric with all its series.

    name    the name in the text, with the suffix of a counter
    text    what the metric means
    labels  names of the labels
    series  values of the labels, and the number or histogram; read once
    bounds  the upper bounds of the buckets of a histogram
    has_level   whether the text begins with the stability level, as in programs of Kubernetes
    """

    name: str
    type: Literal["counter", "gauge", "histogram"]
    text: str
    labels: Labels = ()
    series: Iterable[tuple[Labels, float | Observations]]
    bounds: Sequence[float] = ()
    has_level: bool = True


async def text_of(families: Iterable[Family]) -> AsyncIterator[bytes]:
    """Yield the text of the families in pieces; other tasks run between them."""
    parts: list[str] = []
    length, time_slice = 0, TimeSlice()
    for family in families:
        name = family.name
        level = f"[{stability_of(name)}] " if family.has_level else ""
        parts.append(f"# HELP {name} {level}{family.text}\n# TYPE {name} {family.type}\n")
        labels_form = ",".join(f'{name}="%s"' for name in family.labels)
        line = f"{name}{{%s}} %s\n" if family.labels else f"{name}%s %s\n"
        template = _template(family)
        for label_values, value in family.series:
            labels = _labels_text(labels_form, label_values)
            if isinstance(value, Observations):
                part = _histogram_text(template, labels, value)
            else:
                part = line % (labels, _number(value))
            parts.append(part)
            length += len(part)
            if length >= PIECE_CHARACTERS:
                yield "".join(parts).encode()
                parts, length = [], 0
                await time_slice.yield_if_expired()
    yield "".join(parts).encode()


def _template(family: Family) -> str:
    """Return the text of a histogram with a `%d` for each bucket and the count, a `%s` for the sum,
    and _PLACE for the labels."""
    if family.type != "histogram":
        return ""
    name = family.name
    separator, braces = (",", f"{{{_PLACE}}}") if family.labels else ("", "")
    bounds = [*map(go_value, family.bounds), "+Inf"]
    buckets = "".join(f'{name}_bucket{{{_PLACE}{separator}le="{bound}"}} %d\n' for bound in bounds)
    return f"{buckets}{name}_sum{braces} %s\n{name}_count{braces} %d\n"


def _histogram_text(template: str, labels: str, observations: Observations) -> str:
    counts = tuple(accumulate(observations.counts))
    numbers = template % (*counts, _number(observations.total), counts[-1])
    return numbers.replace(_PLACE, labels)


def _labels_text(form: str, values: Labels) -> str:
    text = form % tuple(values)
    if "\\" in text or "\n" in text or text.count('"') != 2 * len(values):
        return form % tuple(map(_escaped, values))
    return text


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
