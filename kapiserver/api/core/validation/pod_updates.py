"""Validation of pod updates. Few fields of a pod are mutable."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from kapiserver.api.accessors import annotations_of, share_field, value_at
from kapiserver.api.core.v1 import EphemeralContainer, NodeSelectorTerm, PodSpec
from kapiserver.api.core.validation.common import INT32_MAX
from kapiserver.api.core.validation.containers import validate_image_whitespace
from kapiserver.api.core.validation.go_structs import as_go_struct, go_diff
from kapiserver.api.core.validation.pod_annotations import MIRROR, validate_annotations_update
from kapiserver.api.core.validation.pods import validate_pod_metadata_and_spec
from kapiserver.api.core.validation.scheduling import validate_tolerations
from kapiserver.api.errors import FieldError, Path, forbidden, invalid, required
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_UPDATABLE = (
    "`spec.containers[*].image`",
    "`spec.initContainers[*].image`",
    "`spec.activeDeadlineSeconds`",
    "`spec.tolerations` (only additions to existing tolerations)",
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
)


def validate_pod_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated pod. Few fields of its spec are mutable."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    yield from validate_pod_metadata_and_spec(new)
    yield from validate_annotations_update(new, old)
    for kind in ("containers", "initContainers"):
        if len(spec.get(kind) or ()) != len(old_spec.get(kind) or ()):
            yield forbidden(_SPEC / kind, "pod updates may not add or remove containers")
            return
        for index, container in enumerate(spec.get(kind) or ()):
            container_path = (_SPEC / kind)[index]
            if not container.get("image"):
                yield required(container_path / "image")
            yield from validate_image_whitespace(container, container_path)
    deadline = list(_validate_active_deadline_update(spec, old_spec))
    yield from deadline
    if deadline and spec.get("activeDeadlineSeconds") is not None:
        return
    yield from _validate_tolerations_update(spec, old_spec)
    yield from _validate_scheduling_gates_update(spec, old_spec)
    if spec == old_spec:
        return
    if old_spec.get("schedulingGates"):
        yield from _validate_node_constraints_update(spec, old_spec)
    new_spec = _with_mutable_fields_of(spec, old_spec)
    if new_spec != old_spec:
        detail = f"pod updates may not change fields other than {','.join(_UPDATABLE)}"
        yield forbidden(_SPEC, f"{detail}\n{go_diff(old_spec, new_spec, PodSpec)}")


def _validate_active_deadline_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    path = _SPEC / "activeDeadlineSeconds"
    new, old = spec.get("activeDeadlineSeconds"), old_spec.get("activeDeadlineSeconds")
    if new is None:
        if old is not None:
            yield invalid(path, None, "must not update from a positive integer to nil value")
    elif not 0 <= new <= INT32_MAX:
        yield invalid(path, new, f"must be between 0 and {INT32_MAX}, inclusive")
    elif old is not None and old < new:
        yield invalid(path, new, "must be less than or equal to previous value")


def _validate_tolerations_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    def without_seconds(tolerations: list[Tree] | None) -> list[Tree]:
        return [{**toleration, "tolerationSeconds": None} for toleration in tolerations or ()]

    new_tolerations = without_seconds(spec.get("tolerations"))
    if any(
        toleration not in new_tolerations
        for toleration in without_seconds(old_spec.get("tolerations"))
    ):
        detail = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden(_SPEC / "tolerations", detail)
        return
    yield from validate_tolerations(spec.get("tolerations"), _SPEC / "tolerations")


def _validate_scheduling_gates_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    old_gates = {gate.get("name") for gate in old_spec.get("schedulingGates") or ()}
    for index, gate in enumerate(spec.get("schedulingGates") or ()):
        if gate.get("name") not in old_gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield forbidden((_SPEC / "schedulingGates")[index] / "name", detail)


def _validate_node_constraints_update(spec: Tree, old_spec: Tree) -> Iterator[FieldError]:
    """Validate that node selector and node affinity of a gated pod only get narrower."""
    labels, old_labels = spec.get("nodeSelector") or {}, old_spec.get("nodeSelector") or {}
    if any(labels.get(key) != value for key, value in old_labels.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid(_SPEC / "nodeSelector", labels or None, detail)
    path = _SPEC / "affinity" / "nodeAffinity" / _REQUIRED / "nodeSelectorTerms"
    old_terms = value_at(old_spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms") or []
    terms = value_at(spec, "affinity", "nodeAffinity", _REQUIRED, "nodeSelectorTerms") or []
    if old_terms and len(old_terms) != len(terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid(path, [_go_term(term) for term in terms] or None, detail)
        return
    for index, (term, old) in enumerate(zip(terms, old_terms, strict=False)):
        if not _only_adds(term, old):
            detail = "only additions are allowed (no mutations or deletions)"
            yield invalid(path[index], _go_term(term), detail)


def _go_term(term: Tree) -> Tree:
    return as_go_struct(term, NodeSelectorTerm)


def _only_adds(term: Tree, old: Tree) -> bool:
    if not any(old.get(name) for name in _REQUIREMENT_LISTS):
        return not any(term.get(name) for name in _REQUIREMENT_LISTS)
    parts = [(term.get(name) or [], old.get(name) or []) for name in _REQUIREMENT_LISTS]
    return all(
        new_requirements[: len(old_requirements)] == old_requirements
        for new_requirements, old_requirements in parts
    )


_REQUIREMENT_LISTS = ("matchExpressions", "matchFields")


def _with_mutable_fields_of(spec: Tree, old_spec: Tree) -> Tree:
    """Return a copy of `spec` with the mutable fields of `old_spec`."""
    result = copy.deepcopy(spec)
    for kind in ("containers", "initContainers"):
        for container, old in zip(result.get(kind) or (), old_spec.get(kind) or (), strict=False):
            if "image" in old:
                container["image"] = old["image"]
    for name in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        share_field(result, old_spec, name)
    grace = old_spec.get("terminationGracePeriodSeconds")
    if grace is not None and grace < 0 and result.get("terminationGracePeriodSeconds") == 1:
        result["terminationGracePeriodSeconds"] = grace
    if old_spec.get("schedulingGates"):  # node constraints of a gated pod may get narrower
        share_field(result, old_spec, "nodeSelector")
        affinity = dict(result.get("affinity") or {})
        share_field(affinity, old_spec.get("affinity") or {}, "nodeAffinity")
        if affinity or "affinity" in old_spec:
            result["affinity"] = affinity
        else:
            result.pop("affinity", None)
    return result


def validate_ephemeral_containers_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate that ephemeral containers are only added, never changed or removed."""
    if MIRROR in annotations_of(old):
        yield forbidden(Path("[]"), "static pods do not support ephemeral containers")
        return
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    path = _SPEC / "ephemeralContainers"
    yield from validate_pod_metadata_and_spec(new)
    yield from validate_annotations_update(new, old)
    new_containers = {
        container.get("name"): container for container in spec.get("ephemeralContainers") or ()
    }
    for container in old_spec.get("ephemeralContainers") or ():
        name = container.get("name")
        prefix = f'existing ephemeral containers "{name}" may not be'
        if name not in new_containers:
            yield forbidden(path, f"{prefix} removed\n")
        elif new_containers[name] != container:
            diff = go_diff(container, new_containers[name], EphemeralContainer)
            yield forbidden(path, f"{prefix} changed\n{diff}")
