"""The flags of the controllers node-lifecycle-controller and pod-garbage-collector-controller."""

from __future__ import annotations

import argparse

from kapiserver.flags.values import DEFAULTS, count, number, seconds


def add_node_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags."""
    _add_periods(group)
    group.add_argument(
        "--terminated-pod-gc-threshold", type=count, metavar="N",
        default=DEFAULTS.terminated_pod_gc_threshold,
        help="Number of ended pods above which the oldest ones are deleted. 0: none is deleted. "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--node-eviction-rate", type=number, default=DEFAULTS.node_eviction_rate, metavar="RATE",
        help="Nodes a second whose pods are evicted in a zone where most nodes are healthy. "
        "Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--secondary-node-eviction-rate", type=number, metavar="RATE",
        default=DEFAULTS.secondary_node_eviction_rate,
        help="Nodes a second whose pods are evicted in an unhealthy zone, if it is large. A small "
        "one evicts none. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--large-cluster-size-threshold", type=count, metavar="N",
        default=DEFAULTS.large_cluster_size_threshold,
        help="Number of nodes above which a zone is large. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--unhealthy-zone-threshold", type=number, metavar="FRACTION",
        default=DEFAULTS.unhealthy_zone_threshold,
        help="Fraction of nodes that must not be ready, three at least, for a zone to be "
        "unhealthy. Default: %(default)s.",
    )  # fmt: skip


def _add_periods(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--node-monitor-grace-period", type=seconds, metavar="DURATION",
        default=DEFAULTS.node_monitor_grace_period,
        help="How long a node may neither renew its Lease nor report its status before its "
        "conditions become Unknown. Default: 50s.",
    )  # fmt: skip
    group.add_argument(
        "--node-startup-grace-period", type=seconds, metavar="DURATION",
        default=DEFAULTS.node_startup_grace_period,
        help="How long a new node may do neither. Default: 1m.",
    )  # fmt: skip
    group.add_argument(
        "--node-monitor-period", type=seconds, metavar="DURATION",
        default=DEFAULTS.node_monitor_period,
        help="How much longer a node may do neither when this server was late itself, because the "
        "machine slept for example. Default: 5s.",
    )  # fmt: skip
