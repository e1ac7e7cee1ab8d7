"""The pods that a Job creates: their finalizer, and what an index adds to the template."""

from __future__ import annotations

from kapiserver.api.accessors import (
    annotations_of,
    finalizers_of,
    labels_of,
    metadata_of,
    name_of,
    value_at,
)
from kapiserver.api.types import Tree
from kapiserver.controllers.workloads.job.indexes import COMPLETION_INDEX
from kapiserver.controllers.workloads.job.policies import verdict_on
from kapiserver.controllers.workloads.pod_control import pod_from_template

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
"""Keeps a pod until its end is counted in the status of the Job."""
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
IGNORED_INDEX_FAILURES = "batch.kubernetes.io/job-index-ignored-failure-count"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_MAX_PREFIX = 58
"""The characters of a generated name that are not generated."""


def is_tracked(pod: Tree) -> bool:
    """Report whether the pod's end is not counted yet."""
    return TRACKING_FINALIZER in finalizers_of(pod)


def new_pod(job: Tree, index: int | None, replaced: Tree | None) -> Tree:
    """Return a pod of the Job. `index` is that of an Indexed Job, `replaced` the failed pod whose
    failures the new one takes over."""
    pod = pod_from_template(value_at(job, "spec", "template") or {}, job)
    metadata = metadata_of(pod)
    metadata["finalizers"] = [*finalizers_of(pod), TRACKING_FINALIZER]
    if index is not None:
        text = str(index)
        suffix = f"-{text}-"
        metadata["generateName"] = f"{name_of(job)[: _MAX_PREFIX - len(suffix)]}{suffix}"
        metadata["labels"] = {**labels_of(pod), COMPLETION_INDEX: text}
        metadata["annotations"] = {**annotations_of(pod), COMPLETION_INDEX: text}
        if value_at(job, "spec", "backoffLimitPerIndex") is not None:
            metadata["annotations"] |= _failure_counts(job, replaced)
        pod["spec"]["hostname"] = f"{name_of(job)}-{text}"
        _add_index_variable(pod["spec"])
    return pod


def index_failures(pod: Tree) -> int:
    """Return the failures of the pod's index before this pod that count."""
    return _count(pod, INDEX_FAILURES)


def all_index_failures(pod: Tree) -> int:
    """Return the failures of the pod's index before this pod, ignored ones included."""
    return _count(pod, INDEX_FAILURES) + _count(pod, IGNORED_INDEX_FAILURES)


def _count(pod: Tree, annotation: str) -> int:
    text = annotations_of(pod).get(annotation, "")
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 11 else 0
    return number if number < 2**31 else 0


def _failure_counts(job: Tree, replaced: Tree | None) -> Tree:
    failures, ignored = 0, 0
    if replaced is not None:
        failures, ignored = index_failures(replaced), _count(replaced, IGNORED_INDEX_FAILURES)
        if verdict_on(replaced, job).counts:
            failures += 1
        else:
            ignored += 1
    counts = {INDEX_FAILURES: str(failures)}
    return counts | ({IGNORED_INDEX_FAILURES: str(ignored)} if ignored else {})


def _add_index_variable(spec: Tree) -> None:
    path = f"metadata.labels['{COMPLETION_INDEX}']"
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            variables = container.setdefault("env", [])
            if all(variable.get("name") != _INDEX_VARIABLE for variable in variables):
                source = {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}
                variables.append({"name": _INDEX_VARIABLE, "valueFrom": source})
