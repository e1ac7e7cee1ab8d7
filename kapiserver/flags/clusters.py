"""The flags of logical clusters."""

from __future__ import annotations

import argparse

from kapiserver.flags.values import DEFAULTS, boolean, domain, positive, positive_seconds


def add_cluster_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags."""
    group.add_argument(
        "--enable-logical-clusters", type=boolean, nargs="?", const=True, metavar="BOOL",
        default=DEFAULTS.enable_logical_clusters,
        help="Serve many clusters in this process on its store: an object of the kind Cluster "
        "(clusters.kapiserver.dev/v1) is a cluster at /clusters/NAME with objects, definitions, "
        "roles and users of its own. Default: false.",
    )  # fmt: skip
    group.add_argument(
        "--logical-cluster-domain", type=domain, metavar="DOMAIN",
        default=DEFAULTS.logical_cluster_domain,
        help="Domain of which each logical cluster is a subdomain: requests to the host "
        "NAME.DOMAIN go to the cluster NAME. The serving certificate gets the name *.DOMAIN. "
        "Default: clusters have paths alone.",
    )  # fmt: skip
    group.add_argument(
        "--logical-cluster-max-open", type=positive, metavar="N",
        default=DEFAULTS.logical_cluster_max_open,
        help="Logical clusters that may be open at a time in each process; each takes some 3 MB. "
        "For another one, the cluster that has been idle longest is closed; while all are busy, "
        "requests for others get 429. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        "--logical-cluster-idle-timeout", type=positive_seconds, metavar="DURATION",
        default=DEFAULTS.logical_cluster_idle_timeout,
        help="Time without requests and watches after which a logical cluster is closed, until the "
        "next request or the next moment at which a controller of it has work. Default: 5m.",
    )  # fmt: skip
    group.add_argument(
        "--logical-cluster-max-requests-inflight", type=positive, metavar="N",
        default=DEFAULTS.logical_cluster_max_requests_inflight,
        help="Requests of one logical cluster that execute at a time, watches not counted; others "
        "wait, so that a busy cluster does not delay the others. Default: %(default)s.",
    )  # fmt: skip
