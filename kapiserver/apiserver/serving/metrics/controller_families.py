"""The metrics of controllers as families of the exposition.

The names, types and labels are those of kube-controller-manager.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from kapiserver.apiserver.controller_metrics import (
    AutoscalerLabels,
    AutoscalerMetrics,
    ControllerMetrics,
    JobMetrics,
    JobSyncLabels,
    NodeMetrics,
)
from kapiserver.apiserver.metrics import WorkQueueMetrics
from kapiserver.apiserver.serving.metrics.families import counts, histogram, numbers
from kapiserver.apiserver.serving.metrics.text import Family


def controller_families(metrics: ControllerMetrics) -> Iterator[Family]:
    """Yield the families of all controllers."""
    yield from _jobs(metrics.jobs)
    yield histogram(
        "cronjob_controller_job_creation_skew_duration_seconds",
        "Seconds from the time of a schedule to the creation of the Job.",
        (),
        metrics.cron_job_skew,
    )
    yield from _autoscalers(metrics.autoscalers)
    yield from _nodes(metrics.nodes)
    yield histogram(
        "ttl_after_finished_controller_job_deletion_duration_seconds",
        "Seconds from the expiry of a finished Job to its deletion.",
        (),
        metrics.job_deletion_seconds,
    )
    yield numbers(
        "counter",
        "pod_gc_collector_force_delete_pods_total",
        "Pods that the pod garbage collector deleted.",
        ("namespace", "reason"),
        metrics.pods_deleted_by_gc,
    )


def workqueue_families(metrics: WorkQueueMetrics) -> Iterator[Family]:
    """Yield the families of the work queues of controllers."""
    labels = ("name",)
    yield numbers("counter", "workqueue_adds_total", "Items added.", labels, metrics.adds)
    yield numbers(
        "counter",
        "workqueue_retries_total",
        "Items added again after an error.",
        labels,
        metrics.retries,
    )
    yield numbers("gauge", "workqueue_depth", "Items that wait.", labels, metrics.depth)
    yield histogram(
        "workqueue_queue_duration_seconds",
        "Seconds that an item waited.",
        labels,
        metrics.wait_seconds,
    )
    yield histogram(
        "workqueue_work_duration_seconds",
        "Seconds that a reconcile took.",
        labels,
        metrics.work_seconds,
    )
    now = time.perf_counter()
    seconds = {
        name: [now - started for started in list(workers.values())]
        for name, workers in list(metrics.running.items())
    }
    yield Family(
        name="workqueue_unfinished_work_seconds",
        type="gauge",
        text="Seconds that the reconciles that run now have taken together.",
        labels=labels,
        series=[((name,), sum(observations)) for name, observations in seconds.items()],
    )
    yield Family(
        name="workqueue_longest_running_processor_seconds",
        type="gauge",
        text="Seconds that the longest of the reconciles that run now has taken.",
        labels=labels,
        series=[((name,), max(observations, default=0)) for name, observations in seconds.items()],
    )


def _jobs(metrics: JobMetrics) -> Iterator[Family]:
    sync_labels = JobSyncLabels._fields
    text = "Seconds that a reconcile of a Job took."
    name = "job_controller_job_sync_duration_seconds"
    yield histogram(name, text, sync_labels, metrics.sync_seconds)
    name = "job_controller_job_syncs_total"
    yield counts(name, "Reconciles of Jobs.", sync_labels, metrics.sync_seconds)
    mode, result = "completion_mode", "result"
    for name, text, labels, counter in (
        ("jobs_finished_total", "Jobs that ended.", (mode, result, "reason"), metrics.finished),
        (
            "job_pods_finished_total",
            "Pods that have ended and are counted.",
            (mode, result),
            metrics.pods_finished,
        ),
        (
            "job_finished_indexes_total",
            "Indexes of Jobs that ended.",
            ("status", "backoffLimit"),
            metrics.indexes_finished,
        ),
        (
            "job_pods_creation_total",
            "Pods that were created, or could not be.",
            ("reason", "status"),
            metrics.pods_created,
        ),
        (
            "pod_failures_handled_by_failure_policy_total",
            "Failed pods that a podFailurePolicy handled, by action.",
            ("action",),
            metrics.policy_actions,
        ),
        (
            "terminated_pods_tracking_finalizer_total",
            "Pods with the finalizer of Jobs that ended, or that lost it later.",
            ("event",),
            metrics.tracked_terminated_pods,
        ),
        (
            "jobs_by_external_controller_total",
            "New Jobs that another controller manages.",
            ("controller_name",),
            metrics.external,
        ),
    ):
        yield numbers("counter", f"job_controller_{name}", text, labels, counter)


def _autoscalers(metrics: AutoscalerMetrics) -> Iterator[Family]:
    prefix, labels = "horizontal_pod_autoscaler_controller", AutoscalerLabels._fields
    text = "Seconds that a reconcile of an autoscaler took."
    name = f"{prefix}_reconciliation_duration_seconds"
    yield histogram(name, text, labels, metrics.reconcile_seconds)
    name = f"{prefix}_reconciliations_total"
    yield counts(name, "Reconciles of autoscalers.", labels, metrics.reconcile_seconds)
    name, text = f"{prefix}_num_horizontal_pod_autoscalers", "Autoscalers."
    yield numbers("gauge", name, text, (), metrics.autoscalers)
    name, text = f"{prefix}_desired_replicas", "Replicas that an autoscaler wants."
    yield numbers("gauge", name, text, ("namespace", "hpa_name"), metrics.desired_replicas)


def _nodes(metrics: NodeMetrics) -> Iterator[Family]:
    zone = ("zone",)
    text = "Percentage of nodes in a zone that are ready."
    yield numbers("gauge", "node_collector_zone_health", text, zone, metrics.zone_health)
    yield numbers("gauge", "node_collector_zone_size", "Nodes in a zone.", zone, metrics.zone_size)
    name, text = "node_collector_unhealthy_nodes_in_zone", "Nodes in a zone that are not ready."
    yield numbers("gauge", name, text, zone, metrics.unhealthy_nodes)
    text = "Nodes that got the taint which evicts their pods."
    yield numbers("counter", "node_collector_evictions_total", text, zone, metrics.evictions)
    name = "node_collector_update_node_health_duration_seconds"
    text = "Seconds to check the heartbeat of a node."
    yield histogram(name, text, (), metrics.health_seconds)
    prefix = "taint_eviction_controller_pod_deletion"
    text = "Pods that were deleted because of taints."
    yield numbers("counter", f"{prefix}s_total", text, (), metrics.evicted_pods)
    text = "Seconds from the time when a pod should go to its deletion."
    yield histogram(f"{prefix}_duration_seconds", text, (), metrics.eviction_seconds)
