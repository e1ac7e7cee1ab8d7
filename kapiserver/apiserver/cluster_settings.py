"""The settings of logical clusters: a section of `config.py`."""

from __future__ import annotations

from msgspec import Struct


class LogicalClusterSettings(Struct, frozen=True, kw_only=True):
    """Whether the server has logical clusters, and what they may use.

    enable_logical_clusters             serve clusters at /clusters/NAME and the resource of them
    logical_cluster_domain              domain of which each cluster is a subdomain; "" for none
    logical_cluster_max_open            clusters that are open in this process at most
    logical_cluster_idle_timeout        seconds without requests after which a cluster is closed
    logical_cluster_max_requests_inflight   requests of one cluster that execute at a time
    """

    enable_logical_clusters: bool = False
    logical_cluster_domain: str = ""
    logical_cluster_max_open: int = 200
    logical_cluster_idle_timeout: float = 300.0
    logical_cluster_max_requests_inflight: int = 4
