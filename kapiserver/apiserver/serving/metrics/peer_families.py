"""The metrics of peers as families of the exposition, with the names and labels of
kube-apiserver."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.apiserver.peers.metrics import PeerErrorLabels, PeerMetrics, ReroutedLabels
from kapiserver.apiserver.serving.metrics.families import numbers
from kapiserver.apiserver.serving.metrics.text import Family


def peer_families(metrics: PeerMetrics) -> Iterator[Family]:
    """Yield the families of a server with `--peer-ca-file`."""
    yield numbers(
        "counter",
        "apiserver_rerouted_request_total",
        "Requests that were passed on to a peer; those for discovery have no resource.",
        ReroutedLabels._fields,
        metrics.rerouted,
    )
    yield numbers(
        "counter",
        "apiserver_peer_proxy_errors_total",
        "Requests that could not be passed on to a peer, by reason.",
        PeerErrorLabels._fields,
        metrics.errors,
    )
    yield numbers(
        "counter",
        "apiserver_peer_discovery_sync_errors_total",
        "Failures to find out what a peer serves, by step.",
        ("type",),
        metrics.sync_errors,
    )
    for name, text, count in (
        ("peer_aggregated_cache_hits", "Merged discovery that was in memory.", metrics.merged_hits),
        (
            "peer_aggregated_cache_misses",
            "Discovery that was merged with that of peers.",
            metrics.merged_misses,
        ),
        (
            "nopeer_requests",
            "Requests for discovery of this server alone.",
            metrics.unmerged_documents,
        ),
    ):
        yield Family(
            name=f"aggregator_discovery_{name}_total",
            type="counter",
            text=text,
            series=[((), count)],
        )
