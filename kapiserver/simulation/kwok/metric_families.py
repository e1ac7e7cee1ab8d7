"""The metrics of one page of kwok's kind Metric, evaluated for a node. All functions are pure.

A metric has a value for the node, for each of its pods, or for each of their containers. One whose
expressions cannot be evaluated is left out, and the problem is logged once. Mirrors
pkg/kwok/metrics of kwok.
"""

from __future__ import annotations

import functools
import logging
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence

from kapiserver.api.types import Tree
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.metrics import Observations
from kapiserver.simulation.kwok.expressions import (
    ExpressionError,
    Surroundings,
    evaluate,
    number_of,
)

_log = logging.getLogger(__name__)
_METRIC_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*", re.ASCII)
_LABEL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*", re.ASCII)


def families_of(
    metric: Tree, node: Tree, pods: Sequence[Tree], surroundings: Surroundings
) -> list[Family]:
    """Return the families of a page, without those that cannot be evaluated. Of two with the same
    name the first one counts."""
    families: dict[str, Family] = {}
    for config in metric["spec"].get("metrics") or ():
        try:
            family = _family(config, node, pods, surroundings)
            families.setdefault(family.name, family)
        except (ArithmeticError, ValueError, ExpressionError) as error:
            _warn_once(config.get("name") or "", str(error))
    return list(families.values())


@functools.lru_cache(maxsize=1024)
def _warn_once(name: str, problem: str) -> None:
    """Log a problem, which each scrape would find again."""
    _log.warning("the metric %s: %s", name, problem)


def _family(config: Tree, node: Tree, pods: Sequence[Tree], surroundings: Surroundings) -> Family:
    """Return the family of a metric. Raises ValueError, ExpressionError, ArithmeticError."""
    name, labels = config["name"], config.get("labels") or ()
    label_names = [label["name"] for label in labels]
    if not _METRIC_NAME.fullmatch(name) or not all(map(_LABEL_NAME.fullmatch, label_names)):
        raise ExpressionError("the name of the metric, or of a label, is not one of Prometheus")
    buckets = config.get("buckets") or ()
    bounds = sorted(float(bucket["le"]) for bucket in buckets if not bucket.get("hidden"))
    series = []
    for variables in _subjects(config.get("dimension") or "node", node, pods):
        texts = [_text(label["value"], variables, surroundings) for label in labels]
        value: float | Observations
        if config["kind"] == "histogram":
            value = _observations(bounds, buckets, variables, surroundings)
        else:
            value = number_of(evaluate(config.get("value") or "", variables, surroundings))
        series.append((texts, value))
    text = (config.get("help") or "").strip().replace("\\", "\\\\").replace("\n", "\\n")
    return Family(
        name=name,
        type=config["kind"],
        text=text,
        labels=label_names,
        series=series,
        bounds=bounds,
        has_level=False,
    )


def _subjects(dimension: str, node: Tree, pods: Sequence[Tree]) -> Iterator[Mapping[str, Tree]]:
    """Yield the variables of each value of a metric."""
    if dimension == "node":
        yield {"node": node}
        return
    for pod in pods:
        if dimension == "pod":
            yield {"node": node, "pod": pod}
            continue
        for container in (pod.get("spec") or {}).get("containers") or ():
            yield {"node": node, "pod": pod, "container": container}


def _text(source: str, variables: Mapping[str, Tree], surroundings: Surroundings) -> str:
    value = evaluate(source, variables, surroundings)
    if not isinstance(value, str):
        raise ExpressionError(f"a label of the type {type(value).__name__} is not a string")
    return value


def _observations(
    bounds: Sequence[float],
    buckets: Sequence[Tree],
    variables: Mapping[str, Tree],
    surroundings: Surroundings,
) -> Observations:
    """Return a histogram. What hidden buckets hold is shown in the next one that is not hidden."""
    observations = Observations(bounds)
    for bucket in buckets:
        count = max(int(number_of(evaluate(bucket["value"], variables, surroundings))), 0)
        observations.counts[bisect_left(bounds, bucket["le"])] += count
        observations.total += bucket["le"] * count
    return observations
