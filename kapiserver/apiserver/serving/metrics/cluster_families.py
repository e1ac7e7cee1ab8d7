"""The metrics of logical clusters as families of the exposition; kube-apiserver has none."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.apiserver.metrics import ClusterMetrics
from kapiserver.apiserver.serving.metrics.families import histogram, numbers
from kapiserver.apiserver.serving.metrics.text import Family


def cluster_families(metrics: ClusterMetrics) -> Iterator[Family]:
    """Yield the families of a server with `--enable-logical-clusters`."""
    yield Family(
        name="kapiserver_logical_clusters_open",
        type="gauge",
        text="Logical clusters that are open in this process.",
        series=[((), metrics.open)],
    )
    yield histogram(
        "kapiserver_logical_cluster_open_duration_seconds",
        "Seconds that the opening of a logical cluster took, by result.",
        ("result",),
        metrics.open_seconds,
    )
    yield numbers(
        "counter",
        "kapiserver_logical_cluster_closes_total",
        "Logical clusters that were closed, by reason.",
        ("reason",),
        metrics.closes,
    )
