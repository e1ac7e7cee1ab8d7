"""Defaulting of the batch group.

Mirrors pkg/apis/batch/v1/defaults.go.
"""

from __future__ import annotations

from kapiserver.api.accessors import labels_of, metadata_of
from kapiserver.api.batch import v1
from kapiserver.api.defaulting import DefaultFunction, fill_missing
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.types import Tree, Type

_NO_LIMIT = 2**31 - 1


def _default_job(job: Tree) -> None:
    spec = job.setdefault("spec", {})
    if spec.get("parallelism") is None:
        fill_missing(spec, completions=1)
    has_limit_per_index = spec.get("backoffLimitPerIndex") is not None
    has_failure_policy = spec.get("podFailurePolicy") is not None
    fill_missing(
        spec,
        parallelism=1,
        backoffLimit=_NO_LIMIT if has_limit_per_index else 6,
        completionMode="NonIndexed",
        suspend=False,
        podReplacementPolicy="Failed" if has_failure_policy else "TerminatingOrFailed",
        manualSelector=False,
    )
    reorder_keys(spec, v1.JobSpec)
    labels = labels_of(spec.get("template") or {})
    if labels and not labels_of(job):
        metadata_of(job)["labels"] = dict(labels)
        reorder_keys(job["metadata"], ObjectMeta)


def _default_cron_job(cron_job: Tree) -> None:
    spec = cron_job.setdefault("spec", {})
    if not spec.get("concurrencyPolicy"):
        spec["concurrencyPolicy"] = "Allow"
    fill_missing(spec, suspend=False, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
    reorder_keys(spec, v1.CronJobSpec)


def _default_pattern(pattern: Tree) -> None:
    if not pattern.get("status"):
        pattern["status"] = "True"


DEFAULTS: dict[type[Type], DefaultFunction] = {
    v1.CronJob: _default_cron_job,
    v1.Job: _default_job,
    v1.PodFailurePolicyOnPodConditionsPattern: _default_pattern,
}
