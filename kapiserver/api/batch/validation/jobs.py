"""Validation of jobs, and for templates of jobs."""

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
from kapiserver.api.core.validation.common import (
    validate_domain_prefixed_path,
    validate_nonnegative_field,
)
from kapiserver.api.core.validation.controllers import selector_mismatch
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
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

CONTROLLER_LABELS = ("controller-uid", "batch.kubernetes.io/controller-uid")
NAME_LABELS = ("job-name", "batch.kubernetes.io/job-name")
INDEXED_MAX = 100_000
"""The most pods of an indexed job at once, and the most failed indexes it may bear."""
_MANY_COMPLETIONS = 100_000
_MANY_AT_ONCE = 10_000
_MANAGER_MAX = 63
_SPEC = Path("spec")
_COUNTS = (
    "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit",
    "ttlSecondsAfterFinished", "backoffLimitPerIndex", "maxFailedIndexes",
)  # fmt: skip


def validate_job(obj: Tree, old: Tree | None = None) -> Iterator[FieldError]:
    """A job, new or changed; one that is older than the labels of its pods with a prefix may go on
    without."""
    spec = obj.get("spec") or {}
    kept = labels_of(value_at(old or {}, "spec", "template") or {})
    prefixed = old is None or (CONTROLLER_LABELS[1] in kept and NAME_LABELS[1] in kept)
    yield from _generated(obj, _labels(obj, slice(2 if prefixed else 1)))
    yield from _validate_job_spec(spec)
    completions = spec.get("completions") or 0
    if spec.get("completionMode") == "Indexed" and completions > 0:
        last = f"{name_of(obj)}-{completions - 1}"
        if names.dns1123_label(last):
            detail = f"will not able to create pod with invalid DNS label: {last}"
            yield invalid(Path("metadata") / "name", name_of(obj), detail)


def _labels(obj: Tree, forms: slice) -> dict[str, str]:
    """The labels of a job's pods, in the old form or in both."""
    return {
        name: value
        for names_ in zip(CONTROLLER_LABELS[forms], NAME_LABELS[forms], strict=True)
        for name, value in zip(names_, (uid_of(obj), name_of(obj)), strict=True)
    }


def _generated(obj: Tree, wanted: dict[str, str]) -> Iterator[FieldError]:
    # The selector and the labels that the server made, unless they are the client's own.
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector"), spec.get("template") or {}
    if spec.get("manualSelector") or selector is None:
        return
    if not uid_of(obj):
        yield required(Path("metadata") / "uid")
    found, labels_path = labels_of(template), _SPEC / "template" / "metadata" / "labels"
    for key, value in wanted.items():
        if key not in found:
            yield required(labels_path[key], f"must be '{value}'")
        elif found[key] != value:
            yield invalid(labels_path[key], dict(found), f"must be '{value}'")
    try:
        selection = selection_of(selector)
    except BadObject:
        return
    if selection is not None and not selection.matches(wanted, {}):
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
    """What jobs and templates of them share."""
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
    completions, at_once = spec.get("completions"), spec.get("parallelism") or 0
    bearable = spec.get("maxFailedIndexes")
    if completions is None:
        yield required(path / "completions", "when completion mode is Indexed")
    if at_once > INDEXED_MAX:
        detail = f"must be less than or equal to {INDEXED_MAX} when completion mode is Indexed"
        yield invalid(path / "parallelism", at_once, detail)
    if bearable is not None and completions is not None and bearable > completions:
        detail = "must be less than or equal to completions"
        yield invalid(path / "maxFailedIndexes", bearable, detail)
    if (bearable or 0) > INDEXED_MAX:
        detail = f"must be less than or equal to {INDEXED_MAX}"
        yield invalid(path / "maxFailedIndexes", bearable, detail)
    if (completions or 0) <= _MANY_COMPLETIONS or spec.get("backoffLimitPerIndex") is None:
        return
    if bearable is None:
        detail = f"must be specified when completions is above {_MANY_COMPLETIONS}"
        yield required(path / "maxFailedIndexes", detail)
    for name, value in (("parallelism", at_once), ("maxFailedIndexes", bearable or 0)):
        if value > _MANY_AT_ONCE:
            detail = (
                f"must be less than or equal to {_MANY_AT_ONCE} when completions are above "
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
    """What the jobs of a cron job look like; their selectors are made by the server."""
    spec = template.get("spec") or {}
    yield from validate_job_spec(spec, path / "spec")
    if spec.get("selector") is not None:
        detail = "`selector` will be auto-generated"
        yield invalid(path / "spec" / "selector", spec["selector"], detail)
    if spec.get("manualSelector"):
        yield not_supported_in_order(path / "spec" / "manualSelector", True, ("nil", "false"))


_IMMUTABLE = ("podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")


def validate_job_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A changed job: what its pods look like stays. The rules of a spec are told twice, as
    kube-apiserver does."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    yield from validate_job(new, old)
    yield from _validate_job_spec(spec)
    yield from _completions(spec, old_spec)
    yield from immutable(spec.get("selector"), old_spec.get("selector"), _SPEC / "selector")
    template, kept = spec.get("template") or {}, old_spec.get("template") or {}
    if _is_at_rest(old):
        pod = template.get("spec") or {}
        yield from immutable(pod, _with_mutable(kept, pod), _SPEC / "template" / "spec")
    else:
        yield from immutable(template, kept, _SPEC / "template")
    mode = "completionMode"
    yield from immutable(spec.get(mode), old_spec.get(mode), _SPEC / mode)
    for name in _IMMUTABLE:
        yield from immutable(spec.get(name), old_spec.get(name), _SPEC / name)


def _completions(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    wanted, path = spec.get("completions"), _SPEC / "completions"
    if spec.get("completionMode") != "Indexed":
        yield from immutable(wanted, old_spec.get("completions"), path)
    elif wanted not in (None, old_spec.get("completions"), spec.get("parallelism") or 0):
        yield invalid(path, wanted, "can only be modified in tandem with spec.parallelism")


def _is_at_rest(old: Tree) -> bool:
    # Suspended, and without pods that could differ from a changed template.
    status = old.get("status") or {}
    return (
        bool(value_at(old, "spec", "suspend"))
        and not status.get("active")
        and (has_condition(old, "Suspended") or not status.get("startTime"))
    )


def _with_mutable(kept: Tree, wanted: Tree) -> Tree:
    """The old template's pod, with the new one's parts that may change while the job is at rest."""
    spec: Tree = copy.deepcopy(kept.get("spec") or {})
    for name in ("nodeSelector", "tolerations", "schedulingGates"):
        share_field(spec, wanted, name)
    affinity, wanted_affinity = spec.get("affinity"), wanted.get("affinity")
    if wanted_affinity is not None or affinity is not None:
        affinity = spec["affinity"] = dict(affinity or {})
        share_field(affinity, wanted_affinity or {}, "nodeAffinity")
        if wanted_affinity is None and not affinity:
            del spec["affinity"]
    for kind in ("containers", "initContainers"):
        for one, other in zip(spec.get(kind) or (), wanted.get(kind) or (), strict=False):
            share_field(one, other, "resources")
    return spec
