"""Validation of replica sets, and of the selectors of other controllers."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import labels_of
from kapiserver.api.core.validation.common import validate_nonnegative_field
from kapiserver.api.core.validation.controllers import validate_controller_template
from kapiserver.api.errors import BadObject, FieldError, Path, invalid, required
from kapiserver.api.label_selectors import (
    selection_of,
    selects_everything,
    validate_label_selector,
)
from kapiserver.api.metadata_validation import immutable
from kapiserver.api.types import Tree

_SPEC = Path("spec")


def validate_replica_set(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated replica set."""
    spec = obj.get("spec") or {}
    yield from validate_nonnegative_field(spec, "replicas", _SPEC)
    yield from validate_nonnegative_field(spec, "minReadySeconds", _SPEC)
    yield from validate_selector_and_template(spec)


def validate_selector_and_template(spec: Tree) -> Iterator[FieldError]:
    """Validate the selector and the pod template of a replica set or of a deployment."""
    yield from validate_controller_selector(spec.get("selector"), "deployment")
    selector, template = spec.get("selector"), spec.get("template") or {}
    try:
        selection = selection_of(selector)
    except BadObject:
        yield invalid(_SPEC / "selector", selector, "invalid label selector")
        return
    selects = selection is not None and selection.matches(labels_of(template), {})
    yield from validate_controller_template(
        template, _SPEC / "template", selects=selects, owner="ReplicaSet"
    )


def validate_controller_selector(selector: Tree | None, kind: str) -> Iterator[FieldError]:
    """Validate a required selector that must not select everything."""
    if selector is None:
        yield required(_SPEC / "selector")
        return
    yield from validate_label_selector(selector, _SPEC / "selector")
    if selects_everything(selector):
        yield invalid(_SPEC / "selector", selector, f"empty selector is invalid for {kind}")


def validate_replica_set_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated replica set. Its selector is immutable. Errors are reported twice, as in
    kube-apiserver."""
    yield from validate_replica_set(new)
    yield from validate_replica_set(new)
    selector = (new.get("spec") or {}).get("selector")
    old_selector = (old.get("spec") or {}).get("selector")
    yield from immutable(selector, old_selector, _SPEC / "selector")
