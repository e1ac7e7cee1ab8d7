"""The metrics of controllers, with the names, labels and buckets of kube-controller-manager.

Mirrors the metrics of pkg/controller/job, cronjob, podautoscaler, nodelifecycle, tainteviction,
podgc and ttlafterfinished. Durations are those of the server's clock where the time of objects is
measured, and real ones where the work of the controller is.
"""

from __future__ import annotations

from typing import NamedTuple

from kapiserver.metrics import MAX_USER_SERIES, Counter, Gauge, Histogram


def _doubled(first: float, count: int) -> tuple[float, ...]:
    return tuple(first * 2**exponent for exponent in range(count))


class JobSyncLabels(NamedTuple):
    """Labels of a reconcile of a Job. `completion_mode` is "Indexed" or "NonIndexed"; `result` is
    "success" or "error"; `action` is "reconciling", "tracking", "pods_created" or
    "pods_deleted"."""

    completion_mode: str
    result: str
    action: str


class JobMetrics:
    """The metrics of Jobs."""

    def __init__(self) -> None:
        self.sync_seconds: Histogram[JobSyncLabels] = Histogram(_doubled(0.004, 15))
        self.finished: Counter[tuple[str, str, str]] = Counter(limit=MAX_USER_SERIES)
        """The Jobs that ended, by completion mode, "succeeded" or "failed", and reason."""
        self.pods_finished: Counter[tuple[str, str]] = Counter()
        """The pods that are counted, by completion mode and "succeeded" or "failed"."""
        self.indexes_finished: Counter[tuple[str, str]] = Counter()
        """The indexes, by "succeeded" or "failed", and "perIndex" or "global" back-off limit."""
        self.pods_created: Counter[tuple[str, str]] = Counter()
        """The pods that were created or not, by reason and "succeeded" or "failed"."""
        self.policy_actions: Counter[str] = Counter()
        """The failed pods that a podFailurePolicy handled, by action."""
        self.tracked_terminated_pods: Counter[str] = Counter()
        """How often a pod that has ended got ("add") or lost ("delete") its finalizer."""
        self.external: Counter[str] = Counter(limit=MAX_USER_SERIES)
        """The new Jobs that other controllers manage, by the name of the controller."""


class AutoscalerLabels(NamedTuple):
    """Labels of a reconcile of an autoscaler: `action` is "scale_up", "scale_down" or "none", and
    `error` is "internal" or "none"."""

    action: str
    error: str


class AutoscalerMetrics:
    """The metrics of HorizontalPodAutoscalers."""

    def __init__(self) -> None:
        self.reconcile_seconds: Histogram[AutoscalerLabels] = Histogram(_doubled(0.001, 15))
        self.autoscalers: Gauge[str] = Gauge()
        """The number of autoscalers; the label is empty."""
        self.desired_replicas: Gauge[tuple[str, str]] = Gauge(limit=MAX_USER_SERIES)
        """The desired replicas of each autoscaler, by its namespace and name."""


class NodeMetrics:
    """The metrics of lost nodes, by zone, and of the pods that are evicted from tainted nodes."""

    def __init__(self) -> None:
        self.zone_health: Gauge[str] = Gauge(limit=MAX_USER_SERIES)
        """The percentage of nodes that are ready."""
        self.zone_size: Gauge[str] = Gauge(limit=MAX_USER_SERIES)
        self.unhealthy_nodes: Gauge[str] = Gauge(limit=MAX_USER_SERIES)
        self.evictions: Counter[str] = Counter(limit=MAX_USER_SERIES)
        """The nodes that got the taint which evicts their pods."""
        self.health_seconds: Histogram[str] = Histogram(
            [0.001 * 4**exponent for exponent in range(8)]
        )
        """Seconds to write that a node is silent; the label is empty."""
        self.evicted_pods: Counter[str] = Counter()
        """The pods that were deleted; the label is empty."""
        self.eviction_seconds: Histogram[str] = Histogram(
            (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 30, 60, 120, 180, 240)
        )
        """Seconds from the time when a pod should go to its deletion; the label is empty."""


class ControllerMetrics:
    """The metrics of all controllers, besides those of their work queues."""

    def __init__(self) -> None:
        self.jobs = JobMetrics()
        self.cron_job_skew: Histogram[str] = Histogram(_doubled(1, 10))
        """Seconds from the time of a schedule to the creation of the Job; the label is empty."""
        self.autoscalers = AutoscalerMetrics()
        self.nodes = NodeMetrics()
        self.job_deletion_seconds: Histogram[str] = Histogram(_doubled(0.1, 14))
        """Seconds from the expiry of a Job to its deletion; the label is empty."""
        self.pods_deleted_by_gc: Counter[tuple[str, str]] = Counter(limit=MAX_USER_SERIES)
        """The pods that garbage collection deleted, by namespace and reason."""
