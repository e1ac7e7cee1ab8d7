"""The flags of the controller of HorizontalPodAutoscalers."""

from __future__ import annotations

import argparse

from kapiserver.flags.values import DEFAULTS, fraction, positive_seconds, seconds

_PREFIX = "--horizontal-pod-autoscaler-"


def add_autoscaling_flags(group: argparse._ArgumentGroup) -> None:
    """Add the flags, whose names are those of kube-controller-manager."""
    group.add_argument(
        f"{_PREFIX}sync-period", type=positive_seconds, metavar="DURATION",
        default=DEFAULTS.horizontal_pod_autoscaler_sync_period,
        help="How often the metrics of a HorizontalPodAutoscaler are read. Default: 15s.",
    )  # fmt: skip
    group.add_argument(
        f"{_PREFIX}downscale-stabilization", type=seconds, metavar="DURATION",
        default=DEFAULTS.horizontal_pod_autoscaler_downscale_stabilization,
        help="How long recommendations count: pods are not scaled down below the highest of them. "
        "Default: 5m.",
    )  # fmt: skip
    group.add_argument(
        f"{_PREFIX}tolerance", type=fraction, metavar="NUMBER",
        default=DEFAULTS.horizontal_pod_autoscaler_tolerance,
        help="How far the ratio of usage to target may be from 1 before pods are scaled, from 0 "
        "to 1. Default: %(default)s.",
    )  # fmt: skip
    group.add_argument(
        f"{_PREFIX}cpu-initialization-period", type=seconds, metavar="DURATION",
        default=DEFAULTS.horizontal_pod_autoscaler_cpu_initialization_period,
        help="How long after the start of a pod its CPU usage counts only while it is ready. "
        "Default: 5m.",
    )  # fmt: skip
    group.add_argument(
        f"{_PREFIX}initial-readiness-delay", type=seconds, metavar="DURATION",
        default=DEFAULTS.horizontal_pod_autoscaler_initial_readiness_delay,
        help="How long after the start of a pod a change of its readiness counts as the first one. "
        "Default: 30s.",
    )  # fmt: skip
