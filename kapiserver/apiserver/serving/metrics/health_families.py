"""The metrics of /metrics/slis: the results of health checks, as indicators of the service level.

Mirrors metrics/prometheus/slis of k8s.io/component-base (KEP-3466).
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.apiserver.health import Health
from kapiserver.apiserver.serving.metrics.families import numbers
from kapiserver.apiserver.serving.metrics.text import Family


def health_families(health: Health) -> Iterator[Family]:
    """Yield the last result of each check that a request has run, and the numbers of results."""
    yield numbers(
        "gauge",
        "kubernetes_healthcheck",
        "Whether a health check last succeeded.",
        ("name", "type"),
        health.results,
    )
    yield numbers(
        "counter",
        "kubernetes_healthchecks_total",
        "Results of health checks.",
        ("name", "type", "status"),
        health.result_counts,
    )
