"""Validation of jobs and job templates."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import (
    has_condition,
    labels_of,
    name_of,
    share_field,
    uid_of,
    value_at,
)
from kapiserver.api.batch.validation.policies import (
    validate_pod_failure_policy,
    validate_pod_replacement_policy,
    validate_success_policy,
)
from kapiserver.api.core.v1 import PodSpec, PodTemplateSpec
from kapiserver.api.core.validation.common import (
    validate_domain_prefixed_path,
    validate_nonnegative_field,
)
from kapiserver.api.core.validation.controllers import selector_mismatch
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.core.validation.pods import validate_pod_template
from kapiserver.api.errors import (
    BadObject,
    FieldError,
    Path,
    invalid,
    not_supported_in_order,
    required,
    too_long,
)
from kapiserver.api.label_selectors import selection_of, validate_label_selector
from kapiserver.api.metadata_validation import IMMUTABLE, immutable
from kapiserver.api.types import Tree

CONTROLLER_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
INDEXED_MAX = 100_000
"""The maximum parallelism and the maximum number of tolerated failed indexes of an indexed job."""
_MANY_COMPLETIONS = 100_000
_MANY_PARALLEL = 10_000
_MANAGER_MAX = 63
_SPEC = Path("spec")
_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
    "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip


def validate_job(obj: Tree, old: Tree | None = None) -> Iterator[FieldError]:
    """Validate a new or updated job. `old` decides whether the pods need labels with a prefix: jobs
    that were stored without them stay valid."""
    spec = obj.get("spec") or {}
    old_labels = labels_of(value_at(old or {}, "spec", "template") or {})
    has_prefixed_labels = old is None or (
        CONTROLLER_LABELS[1] in old_labels and NAME_LABELS[1] in old_labels
    )
    yield from _validate_generated_selector(
        obj, _generated_labels(obj, slice(2 if has_prefixed_labels else 1))
    )
    yield from _validate_job_spec(spec)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        last_pod_name = f"{name_of(obj)}-{completions - 1}"
        if names.dns1123_label(last_pod_name):
            detail = f"will not able to create pod with invalid DNS label: {last_pod_name}"
            yield invalid(Path("metadata") / "name", name_of(obj), detail)


def _generated_labels(obj: Tree, forms: slice) -> dict[str, str]:
    """Return the generated labels of a job's pods, without a prefix or in both forms."""
    return {
        name: value
        for label_names in zip(CONTROLLER_LABELS[forms], NAME_LABELS[forms], strict=True)
        for name, value in zip(label_names, (uid_of(obj), name_of(obj)), strict=True)
    }


def _validate_generated_selector(
    obj: Tree, expected_labels: dict[str, str]
) -> Iterator[FieldError]:
    # The generated selector and labels, unless the client set its own selector.
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    if spec.get("manualSelector") or selector is None:
        return
    if not uid_of(obj):
        yield required(Path("metadata") / "uid")
    labels, labels_path = labels_of(template), _SPEC / "template" / "metadata" / "labels"
    for key, value in expected_labels.items():
        if key not in labels:
            yield required(labels_path[key], f"must be '{value}'")
        elif labels[key] != value:
            yield invalid(labels_path[key], dict(labels), f"must be '{value}'")
    try:
        selection = selection_of(selector)
    except BadObject:
        return
    if selection is not None and not selection.matches(expected_labels, {}):
        yield invalid(_SPEC / "selector", selector, "`selector` not auto-generated")


def _validate_job_spec(spec: Tree) -> Iterator[FieldError]:
    yield from validate_job_spec(spec, _SPEC)
    selector, template = spec.get("selector"), spec.get("template") or {}
    if selector is None:
        yield required(_SPEC / "selector")
    yield from validate_label_selector(selector, _SPEC / "selector")
    try:
        selection = selection_of(selector)
    except BadObject:
        return
    if selection is None or not selection.matches(labels_of(template), {}):
        yield selector_mismatch(template, _SPEC / "template")


def validate_job_spec(spec: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the spec of a job or of a job template."""
    for name in _COUNTS:
        yield from validate_nonnegative_field(spec, name, path)
    if spec.get("maxFailedIndexes") is not None and spec.get("backoffLimitPerIndex") is None:
        yield required(path / "backoffLimitPerIndex", "when maxFailedIndexes is specified")
    manager = spec.get("managedBy")
    if manager is not None:
        yield from validate_domain_prefixed_path(manager, path / "managedBy")
        if len(manager) > _MANAGER_MAX:
            yield too_long(path / "managedBy", _MANAGER_MAX)
    yield from _validate_completion(spec, path)
    if spec.get("podFailurePolicy") is not None:
        yield from validate_pod_failure_policy(spec, path / "podFailurePolicy")
    if spec.get("successPolicy") is not None:
        if spec.get("completionMode") == "Indexed":
            yield from validate_success_policy(spec, path / "successPolicy")
        else:
            detail = "requires indexed completion mode"
            yield invalid(path / "successPolicy", spec["successPolicy"], detail)
    yield from validate_pod_replacement_policy(spec, path / "podReplacementPolicy")
    yield from validate_pod_template(spec.get("template") or {}, path / "template")
    yield from _validate_restart(spec, path / "template" / "spec" / "restartPolicy")


def _validate_completion(spec: Tree, path: Path) -> Iterator[FieldError]:
    mode = spec.get("completionMode")
    if mode not in (None, "Indexed", "NonIndexed"):
        yield not_supported_in_order(path / "completionMode", mode, ("NonIndexed", "Indexed"))
    elif mode == "Indexed":
        yield from _validate_indexed(spec, path)
    else:
        for name in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if spec.get(name) is not None:
                yield invalid(path / name, spec[name], "requires indexed completion mode")


def _validate_indexed(spec: Tree, path: Path) -> Iterator[FieldError]:
    completions, parallelism = spec.get("completions"), spec.get("parallelism") or 0
    max_failed = spec.get("maxFailedIndexes")
    if completions is None:
        yield required(path / "completions", "when completion mode is Indexed")
    if parallelism > INDEXED_MAX:
        detail = f"must be less than or equal to {INDEXED_MAX} when completion mode is Indexed"
        yield invalid(path / "parallelism", parallelism, detail)
    if max_failed is not None and completions is not None and max_failed > completions:
        detail = "must be less than or equal to completions"
        yield invalid(path / "maxFailedIndexes", max_failed, detail)
    if (max_failed or 0) > INDEXED_MAX:
        detail = f"must be less than or equal to {INDEXED_MAX}"
        yield invalid(path / "maxFailedIndexes", max_failed, detail)
    if (completions or 0) <= _MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return
    if max_failed is None:
        detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        yield required(path / "maxFailedIndexes", detail)
    for name, value in (("parallelism", parallelism), ("maxFailedIndexes", max_failed or 0)):
        if value > _MANY_PARALLEL:
            detail = (
                f"must be less than or equal to {_MANY_PARALLEL} when completions are above "
                f"{_MANY_COMPLETIONS} and used with backoff limit per index"
            )
            yield invalid(path / name, value, detail)


def _validate_restart(spec: Tree, path: Path) -> Iterator[FieldError]:
    policy = value_at(spec, "template", "spec", "restartPolicy") or ""
    if policy in ("", "Always"):
        yield required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("Never", "OnFailure"):
        yield not_supported_in_order(path, policy, ("OnFailure", "Never"))
    elif policy != "Never" and spec.get("podFailurePolicy") is not None:
        detail = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid(path, policy, detail)


def validate_job_template(template: Tree, path: Path) -> Iterator[FieldError]:
    """Validate the job template of a cron job. The selectors of its jobs are generated."""
    spec = template.get("spec") or {}
    yield from validate_job_spec(spec, path / "spec")
    if spec.get("selector") is not None:
        detail = "`selector` will be auto-generated"
        yield invalid(path / "spec" / "selector", spec["selector"], detail)
    if spec.get("manualSelector"):
        yield not_supported_in_order(path / "spec" / "manualSelector", True, ("nil", "false"))


_IMMUTABLE_FIELDS = ("podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def validate_job_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated job. Its pod template is immutable, unless it is suspended. Errors of the
    spec are reported twice, as in kube-apiserver."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    yield from validate_job(new, old)
    yield from _validate_job_spec(spec)
    yield from _validate_completions_update(spec, old_spec)
    yield from immutable(spec.get("selector"), old_spec.get("selector"), _SPEC / "selector")
    template, old_template = spec.get("template") or {}, old_spec.get("template") or {}
    if _is_suspended_and_idle(old):
        pod_spec = template.get("spec") or {}
        if pod_spec != _with_mutable_fields(old_template, pod_spec):
            yield invalid(_SPEC / "template" / "spec", as_go_struct(pod_spec, PodSpec), IMMUTABLE)
    elif template != old_template:
        yield invalid(_SPEC / "template", as_go_struct(template, PodTemplateSpec), IMMUTABLE)
    field_name = "completionMode"
    yield from immutable(spec.get(field_name), old_spec.get(field_name), _SPEC / field_name)
    for name in _IMMUTABLE_FIELDS:
        yield from immutable(spec.get(name), old_spec.get(name), _SPEC / name)


def _validate_completions_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    completions, path = spec.get("completions"), _SPEC / "completions"
    if spec.get("completionMode") != "Indexed":
        yield from immutable(completions, old_spec.get("completions"), path)
    elif completions not in (None, old_spec.get("completions"), spec.get("parallelism") or 0):
        yield invalid(path, completions, "can only be modified in tandem with spec.parallelism")


def _is_suspended_and_idle(old: Tree) -> bool:
    # Pods of a suspended job may still run with the old template.
    status = old.get("status") or {}
    return (
        bool(value_at(old, "spec", "suspend"))
        and not status.get("active")
        and (has_condition(old, "Suspended") or not status.get("startTime"))
    )


def _with_mutable_fields(old_template: Tree, new_spec: Tree) -> Tree:
    """Return the old pod spec with those fields of the new one that may change while the job is
    suspended."""
    spec: Tree = copy.deepcopy(old_template.get("spec") or {})
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        share_field(spec, new_spec, name)
    affinity, new_affinity = spec.get("affinity"), new_spec.get("affinity")
    if new_affinity is not None or affinity is not None:
        affinity = spec["affinity"] = dict(affinity or {})
        share_field(affinity, new_affinity or {}, "nodeAffinity")
        if new_affinity is None and not affinity:
            del spec["affinity"]
    for kind in ("containers", "initContainers"):
        for container, new_container in zip(
            spec.get(kind) or (), new_spec.get(kind) or (), strict=False
        ):
            share_field(container, new_container, "resources")
    return spec
