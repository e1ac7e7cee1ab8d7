"""Validation of stateful sets."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import labels_of, name_of
from kapiserver.api.apps.validation.replica_sets import validate_controller_selector
from kapiserver.api.core.v1 import PersistentVolumeClaim
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
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.core.validation.persistent_volume_claims import validate_claim_spec
from kapiserver.api.core.validation.pod_annotations import validate_pod_annotations
from kapiserver.api.core.validation.pods import validate_pod_template
from kapiserver.api.errors import (
    BadObject,
    FieldError,
    Path,
    invalid,
    not_supported_in_order,
    required,
)
from kapiserver.api.label_selectors import selection_of, validate_labels
from kapiserver.api.metadata_validation import IMMUTABLE, immutable, validate_annotations
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_TEMPLATE = _SPEC / "template"
_POLICIES = ("OrderedReady", "Parallel")
_STRATEGIES = ("RollingUpdate", "OnDelete")


def validate_stateful_set(obj: Tree) -> Iterator[FieldError]:
    """Validate a new stateful set."""
    spec = obj.get("spec") or {}
    yield from _validate_pod_management(spec)
    yield from _validate_claims(spec)
    yield from _validate_counts(spec)
    if spec.get("serviceName"):
        yield from validate_format(names.dns1123_label, spec["serviceName"], _SPEC / "serviceName")
    yield from validate_controller_selector(spec.get("selector"), "statefulset")
    yield from _validate_template(spec)


def _validate_mutable_fields(spec: Tree) -> Iterator[FieldError]:
    # Immutable fields are not validated: older rules may have accepted them.
    yield from _validate_pod_management(spec)
    yield from _validate_counts(spec)
    yield from validate_controller_selector(spec.get("selector"), "statefulset")


def _validate_pod_management(spec: Tree) -> Iterator[FieldError]:
    policy = spec.get("podManagementPolicy") or ""
    if not policy:
        yield required(_SPEC / "podManagementPolicy")
    elif policy not in _POLICIES:
        yield invalid(_SPEC / "podManagementPolicy", policy, _either_message(_POLICIES))
    yield from _validate_update_strategy(spec.get("updateStrategy") or {}, _SPEC / "updateStrategy")
    retention = spec.get("persistentVolumeClaimRetentionPolicy")
    if retention is not None:
        for name in ("whenDeleted", "whenScaled"):
            if retention.get(name) not in ("Delete", "Retain"):
                field_path = _SPEC / "persistentVolumeClaimRetentionPolicy" / name
                yield not_supported_in_order(
                    field_path, retention.get(name) or "", ("Retain", "Delete")
                )


def _validate_counts(spec: Tree) -> Iterator[FieldError]:
    yield from validate_nonnegative_field(spec, "replicas", _SPEC)
    yield from validate_nonnegative_field(spec, "minReadySeconds", _SPEC)
    yield from validate_nonnegative_field(spec.get("ordinals") or {}, "start", _SPEC / "ordinals")


def _either_message(choices: tuple[str, str]) -> str:
    return f"must be '{choices[0]}' or '{choices[1]}'"


def _validate_update_strategy(strategy: Tree, path: Path) -> Iterator[FieldError]:
    type_, rolling = strategy.get("type") or "", strategy.get("rollingUpdate")
    # The internal Go struct, whose JSON form has the names of Go's fields.
    rolling_value = rolling and {
        "Partition": rolling.get("partition") or 0,
        "MaxUnavailable": rolling.get("maxUnavailable"),
    }
    if not type_:
        yield required(path)
    elif type_ not in _STRATEGIES:
        yield invalid(
            path, {"Type": type_, "RollingUpdate": rolling_value}, _either_message(_STRATEGIES)
        )
    elif rolling is None:
        return
    elif type_ == "OnDelete":
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        yield invalid(path / "rollingUpdate", rolling_value, detail)
    else:
        yield from _validate_rolling(rolling, path / "rollingUpdate")


def _validate_rolling(rolling: Tree, path: Path) -> Iterator[FieldError]:
    yield from validate_nonnegative_field(rolling, "partition", path)
    max_unavailable, max_unavailable_path = rolling.get("maxUnavailable"), path / "maxUnavailable"
    if max_unavailable is None:
        return
    yield from validate_int_or_percent(max_unavailable, max_unavailable_path)
    if is_zero(max_unavailable):
        yield invalid(max_unavailable_path, max_unavailable, "cannot be 0")
    yield from validate_percent_at_most_100(max_unavailable, max_unavailable_path)


def _validate_template(spec: Tree, *, skip_pod_spec: bool = False) -> Iterator[FieldError]:
    """Validate the pod template. With `skip_pod_spec`, its pod spec is not validated."""
    template, selector = spec.get("template") or {}, spec.get("selector")
    try:
        selection = selection_of(selector)
    except BadObject:
        yield invalid(_SPEC / "selector", selector, "")
    else:
        if selection is None or not selection.matches(labels_of(template), {}):
            yield selector_mismatch(template, _TEMPLATE)
        if not skip_pod_spec:
            yield from validate_pod_template(_with_claim_volumes(template, spec), _TEMPLATE)
        # Reported twice if the pod spec is validated, as in kube-apiserver.
        metadata = template.get("metadata") or {}
        yield from validate_labels(metadata.get("labels"), _TEMPLATE / "labels")
        yield from validate_annotations(metadata.get("annotations"), _TEMPLATE / "annotations")
        if metadata.get("annotations"):
            yield from validate_pod_annotations(template, _TEMPLATE / "annotations")
    yield from validate_long_running_pod(template, _TEMPLATE, owner="StatefulSet")


def _with_claim_volumes(template: Tree, spec: Tree) -> Tree:
    # Each pod gets volumes for its own claims, and a host name of its own.
    claims = list(dict.fromkeys(map(name_of, spec.get("volumeClaimTemplates") or ())))
    pod_spec = {**(template.get("spec") or {}), "hostname": "", "subdomain": ""}
    if claims:
        other_volumes = [
            volume for volume in pod_spec.get("volumes") or () if volume.get("name") not in claims
        ]
        claim_volumes = [
            {"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims
        ]
        pod_spec["volumes"] = claim_volumes + other_volumes
    return {**template, "spec": pod_spec}


def _validate_claims(spec: Tree) -> Iterator[FieldError]:
    for index, claim in enumerate(spec.get("volumeClaimTemplates") or ()):
        claim_path = (_SPEC / "volumeClaimTemplates")[index]
        yield from validate_claim_spec(claim.get("spec") or {}, claim_path / "spec")


def validate_stateful_set_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated stateful set. Four fields are immutable. The pod spec is not validated if
    the old one was invalid."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    was_invalid = any(_validate_mutable_fields(old_spec)) or any(_validate_template(old_spec))
    yield from _validate_mutable_fields(spec)
    yield from _validate_template(spec, skip_pod_spec=was_invalid)
    yield from immutable(spec.get("selector"), old_spec.get("selector"), _SPEC / "selector")
    claims = spec.get("volumeClaimTemplates") or []
    if claims != (old_spec.get("volumeClaimTemplates") or []):
        structs = [as_go_struct(claim, PersistentVolumeClaim) for claim in claims]
        yield invalid(_SPEC / "volumeClaimTemplates", structs, IMMUTABLE)
    for name in ("serviceName", "podManagementPolicy"):
        yield from immutable(spec.get(name) or "", old_spec.get(name) or "", _SPEC / name)


_COUNTS = (
    "replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas",
    "observedGeneration", "collisionCount",
)  # fmt: skip


def validate_stateful_set_status_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate the status of a stateful set."""
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
