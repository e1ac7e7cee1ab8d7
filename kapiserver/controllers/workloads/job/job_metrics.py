"""What is counted about a Job: its reconciles, its end, and its pods.

Mirrors the metrics of pkg/controller/job/metrics.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

from kapiserver.api.accessors import value_at
from kapiserver.api.types import Tree
from kapiserver.apiserver.controller_metrics import JobMetrics, JobSyncLabels
from kapiserver.controllers.workloads.job.indexes import parse_indexes
from kapiserver.controllers.workloads.job.job_pods import is_tracked
from kapiserver.controllers.workloads.job.outcome import SUCCESS, Outcome
from kapiserver.controllers.workloads.job.plan import JobPlan
from kapiserver.controllers.workloads.job.policies import replaces_failed_only
from kapiserver.controllers.workloads.pods import is_finished
from kapiserver.storage.objects.informer import ObjectChange


class JobMeter:
    """Counts what happens to Jobs."""

    def __init__(self, metrics: JobMetrics) -> None:
        self._metrics = metrics

    @contextlib.contextmanager
    def reconcile(self, job: Tree) -> Iterator[list[JobPlan]]:
        """Observe a reconcile, which puts its plan into the list as soon as it has one."""
        started, plans = time.perf_counter(), list[JobPlan]()
        result = "error"
        try:
            yield plans
            result = "success"
        finally:
            action = action_of(plans[0]) if plans else "reconciling"
            labels = JobSyncLabels(completion_mode(job), result, action)
            self._metrics.sync_seconds.observe(labels, time.perf_counter() - started)

    def count_external(self, job: Tree) -> None:
        """Count a new Job that another controller manages."""
        self._metrics.external.add(value_at(job, "spec", "managedBy"))

    def count_finalizer(self, change: ObjectChange) -> None:
        """Count a pod that ends with the finalizer, or loses it after its end."""
        before, after = (
            entry is not None and is_finished(entry.tree()) and is_tracked(entry.tree())
            for entry in (change.old, change.new)
        )
        if before != after:
            self._metrics.tracked_terminated_pods.add("add" if after else "delete")

    def count_created(self, job: Tree, plan: JobPlan, created: int) -> None:
        """Count the pods of a plan that were created, and those that were not."""
        reason = creation_reason(job, plan.status)
        for status, number in (("succeeded", created), ("failed", len(plan.create) - created)):
            if number:
                self._metrics.pods_created.add((reason, status), number)

    def count_ended(self, job: Tree, plan: JobPlan, status: Tree) -> None:
        """Count the pods and indexes that a new status of a Job has more than the present one."""
        mode = completion_mode(job)
        for (result, limit), number in ended_indexes(job, status).items():
            self._metrics.indexes_finished.add((result, limit), number)
        for result, number in ended_pods(job, status).items():
            self._metrics.pods_finished.add((mode, result), number)
        for action in plan.policy_actions:
            self._metrics.policy_actions.add(action)

    def count_finished(self, job: Tree, outcome: Outcome) -> None:
        """Count a Job that has ended."""
        result = "succeeded" if outcome.type == SUCCESS else "failed"
        self._metrics.finished.add((completion_mode(job), result, outcome.reason))


def completion_mode(job: Tree) -> str:
    """Return `Indexed` or `NonIndexed`."""
    return value_at(job, "spec", "completionMode") or "NonIndexed"


def action_of(plan: JobPlan) -> str:
    """Return the label of what a reconcile does to pods."""
    if plan.outcome is not None and plan.outcome.reason != "CompletionsReached":
        return "reconciling"
    if plan.create:
        return "pods_created"
    return "pods_deleted" if plan.forget else "tracking"


def creation_reason(job: Tree, status: Tree) -> str:
    """Return why a Job gets more pods."""
    has_failures = bool(
        status.get("failed") or value_at(status, "uncountedTerminatedPods", "failed")
    )
    if replaces_failed_only(job) and has_failures:
        return "recreate_failed"
    if has_failures or status.get("terminating"):
        return "recreate_terminating_or_failed"
    return "new"


def ended_indexes(job: Tree, status: Tree) -> dict[tuple[str, str], int]:
    """Return how many indexes have ended since the present status of a Job, by result and kind of
    back-off limit."""
    spec = job.get("spec") or {}
    if completion_mode(job) != "Indexed":
        return {}
    limit = "global" if spec.get("backoffLimitPerIndex") is None else "perIndex"
    counts = {}
    for result, name in (("succeeded", "completedIndexes"), ("failed", "failedIndexes")):
        before, after = (
            len(parse_indexes(job_status.get(name), spec["completions"]))
            for job_status in (job.get("status") or {}, status)
        )
        if after > before:
            counts[result, limit] = after - before
    return counts


def ended_pods(job: Tree, status: Tree) -> dict[str, int]:
    """Return how many pods are counted since the present status of a Job, by result."""
    before = job.get("status") or {}
    counts = {
        result: (status.get(result) or 0) - (before.get(result) or 0)
        for result in ("succeeded", "failed")
    }
    return {result: number for result, number in counts.items() if number > 0}
