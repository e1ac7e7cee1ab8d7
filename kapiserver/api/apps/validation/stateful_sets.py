"""Validation of stateful sets."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import labels_of, name_of
from kapiserver.api.apps.validation.replica_sets import owning_selector
from kapiserver.api.core.validation.common import validate_format, validate_nonnegative_field
from kapiserver.api.core.validation.controllers import (
    is_zero,
    selector_mismatch,
    validate_count_limits,
    validate_int_or_percent,
    validate_long_running_pod,
    validate_nonnegative_counts,
    validate_not_decremented,
    validate_percent_at_most_100,
)
from kapiserver.api.core.validation.persistent_volume_claims import validate_claim_spec
from kapiserver.api.core.validation.pod_annotations import validate_pod_annotations
from kapiserver.api.core.validation.pods import validate_pod_template
from kapiserver.api.errors import (
    BadObject,
    FieldError,
    Path,
    forbidden,
    invalid,
    not_supported_in_order,
    required,
)
from kapiserver.api.label_selectors import selection_of, validate_labels
from kapiserver.api.metadata_validation import validate_annotations
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_TEMPLATE = _SPEC / "template"
_POLICIES = ("OrderedReady", "Parallel")
_STRATEGIES = ("RollingUpdate", "OnDelete")
_MUTABLE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip


def validate_stateful_set(obj: Tree) -> Iterator[FieldError]:
    """Validate a new stateful set."""
    spec = obj.get("spec") or {}
    yield from _pods(spec)
    yield from _validate_claims(spec)
    yield from _counts(spec)
    if spec.get("serviceName"):
        yield from validate_format(names.dns1123_label, spec["serviceName"], _SPEC / "serviceName")
    yield from owning_selector(spec.get("selector"), "statefulset")
    yield from _validate_template(spec)


def _kept_stateful_set(spec: Tree) -> Iterator[FieldError]:
    # The rules without those for what never changes and was perhaps once held to less.
    yield from _pods(spec)
    yield from _counts(spec)
    yield from owning_selector(spec.get("selector"), "statefulset")


def _pods(spec: Tree) -> Iterator[FieldError]:
    policy = spec.get("podManagementPolicy") or ""
    if not policy:
        yield required(_SPEC / "podManagementPolicy")
    elif policy not in _POLICIES:
        yield invalid(_SPEC / "podManagementPolicy", policy, _either(_POLICIES))
    yield from _validate_update_strategy(spec.get("updateStrategy") or {}, _SPEC / "updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    if retention is not None:
        for name in ("whenDeleted", "whenScaled"):
            if retention.get(name) not in ("Delete", "Retain"):
                field_path = _SPEC / "persistentVolumeClaimRetentionPolicy" / name
                yield not_supported_in_order(
                    field_path, retention.get(name) or "", ("Retain", "Delete")
                )


def _counts(spec: Tree) -> Iterator[FieldError]:
    yield from validate_nonnegative_field(spec, "replicas", _SPEC)
    yield from validate_nonnegative_field(spec, "minReadySeconds", _SPEC)
    yield from validate_nonnegative_field(spec.get("ordinals") or {}, "start", _SPEC / "ordinals")


def _either(choices: tuple[str, str]) -> str:
    return f"must be '{choices[0]}' or '{choices[1]}'"


def _validate_update_strategy(strategy: Tree, path: Path) -> Iterator[FieldError]:
    type_, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    # Values as Go spells their fields: the inner types have no names of their own.
    shown = rolling and {
        "Partition": rolling.get("partition") or 0,
        "MaxUnavailable": rolling.get("maxUnavailable"),
    }
    if not type_:
        yield required(path)
    elif type_ not in _STRATEGIES:
        yield invalid(path, {"Type": type_, "RollingUpdate": shown}, _either(_STRATEGIES))
    elif rolling is None:
        return
    elif type_ == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        yield invalid(path / "rollingUpdate", shown, detail)
    else:
        yield from _validate_rolling(rolling, path / "rollingUpdate")


def _validate_rolling(rolling: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_nonnegative_field(rolling, "partition", path)
    missing, max_unavailable_path = rolling.get("maxUnavailable"), path / "maxUnavailable"
    if missing is None:
        return
    yield from validate_int_or_percent(missing, max_unavailable_path)
    if is_zero(missing):
        yield invalid(max_unavailable_path, missing, "cannot be 0")
    yield from validate_percent_at_most_100(missing, max_unavailable_path)


def _validate_template(spec: Tree, *, known_bad: bool = False) -> Iterator[FieldError]:
    """`known_bad`: the pods it describes are not looked at, what was wrong with them is stored."""
    template, selector = spec.get("template") or {}, spec.get("selector")
    try:
        selection = selection_of(selector)
    except BadObject:
        yield invalid(_SPEC / "selector", selector, "")
    else:
        if selection is None or not selection.matches(labels_of(template), {}):
            yield selector_mismatch(template, _TEMPLATE)
        if not known_bad:
            yield from validate_pod_template(_with_claims(template, spec), _TEMPLATE)
        # Told twice where pods are looked at, as kube-apiserver does.
        meta = template.get("metadata") or {}
        yield from validate_labels(meta.get("labels"), _TEMPLATE / "labels")
        yield from validate_annotations(meta.get("annotations"), _TEMPLATE / "annotations")
        if meta.get("annotations"):
            yield from validate_pod_annotations(template, _TEMPLATE / "annotations")
    yield from validate_long_running_pod(template, _TEMPLATE, owner="StatefulSet")


def _with_claims(template: Tree, spec: Tree) -> Tree:
    # Each pod mounts its own claims as if they were volumes of the template, and is named anew.
    claims = list(dict.fromkeys(map(name_of, spec.get("volumeClaimTemplates") or ())))
    pod = {**(template.get("spec") or {}), "hostname": "", "subdomain": ""}
    if claims:
        own = [volume for volume in pod.get("volumes") or () if volume.get("name") not in claims]
        mounted = [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims
        ]
        pod["volumes"] = mounted + own
    return {**template, "spec": pod}


def _validate_claims(spec: Tree) -> Iterator[FieldError]:
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        claim_path = (_SPEC / "volumeClaimTemplates")[index]
        yield from validate_claim_spec(claim.get("spec") or {}, claim_path / "spec")


def validate_stateful_set_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A changed stateful set: little of it may change. What was wrong before may stay so."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    was_bad = any(_kept_stateful_set(old_spec)) or any(_validate_template(old_spec))
    yield from _kept_stateful_set(spec)
    yield from _validate_template(spec, known_bad=was_bad)
    if _rest(spec) != _rest(old_spec):
        *most, last = (f"'{name}'" for name in _MUTABLE)
        detail = (
            f"updates to statefulset spec for fields other than {', '.join(most)} and {last} are "
            "forbidden"
        )
        yield forbidden(_SPEC, detail)


def _rest(spec: Tree) -> Tree:
    return {
        name: value
        for name, value in spec.items()
        if name not in _MUTABLE and value not in (None, "", [], {})
    }


_COUNTS = (
    "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas",
    "observedGeneration", "collisionCount",
)  # fmt: skip


def validate_stateful_set_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """What the controller reports."""
    status = new.get("status") or {}
    yield from validate_nonnegative_counts(status, _COUNTS)
    yield from validate_count_limits(
        status,
        (
            ("readyReplicas", "replicas"),
            ("currentReplicas", "replicas"),
            ("updatedReplicas", "replicas"),
            ("availableReplicas", "replicas"),
            ("availableReplicas", "readyReplicas"),
        ),
        prefix="status.",
    )
    yield from validate_not_decremented(status, old.get("status") or {}, "collisionCount")
