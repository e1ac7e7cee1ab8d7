"""The metrics of peers. Mirrors util/peerproxy/metrics and discovery/aggregated/metrics.go of
k8s.io/apiserver."""

from __future__ import annotations

from typing import NamedTuple

from kapiserver.metrics import MAX_USER_SERIES, Counter


class ReroutedLabels(NamedTuple):
    """Labels of a request that was passed on to a peer; a request for discovery has a code only."""

    code: str
    group: str = ""
    version: str = ""
    resource: str = ""


class PeerErrorLabels(NamedTuple):
    """Labels of a request that could not be passed on; `type` is "endpoint_resolution"."""

    type: str
    group: str
    version: str
    resource: str


class PeerMetrics:
    """The metrics of one server."""

    def __init__(self) -> None:
        self.rerouted: Counter[ReroutedLabels] = Counter(limit=MAX_USER_SERIES)
        self.errors: Counter[PeerErrorLabels] = Counter(limit=MAX_USER_SERIES)
        self.sync_errors: Counter[str] = Counter()
        """Errors by the step that failed: lease_list, hostport_resolution or fetch_discovery."""
        self.merged_hits = 0
        """Documents of discovery that were merged before."""
        self.merged_misses = 0
        self.unmerged_documents = 0
        """Documents of discovery that were to show this server alone."""
