"""Reads /metrics of a server."""

from __future__ import annotations

from typing import Any

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[str, list[tuple[dict[str, str], float]]]


def scrape(api: Any, accept: str = "*/*") -> Samples:
    """The labels and values of all series, by metric."""
    response = api.get("/metrics", accept=accept)
    assert response.status == 200
    samples: Samples = {}
    for family in text_string_to_metric_families(response.body.decode()):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((sample.labels, sample.value))
    return samples


def value_of(samples: Samples, metric: str, /, **labels: str) -> float:
    """The sum of the series that have these labels."""
    return sum(
        value
        for sample_labels, value in samples.get(metric, ())
        if labels.items() <= sample_labels.items()
    )
