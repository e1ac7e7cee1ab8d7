"""Validation of replication controllers and pod templates."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.accessors import labels_of
from kapiserver.api.core.validation.common import validate_nonnegative_field
from kapiserver.api.core.validation.controllers import validate_controller_template
from kapiserver.api.core.validation.pods import validate_pod_template
from kapiserver.api.errors import FieldError, Path, required
from kapiserver.api.types import Tree

_SPEC = Path("spec")


def validate_replication_controller(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated replication controller."""
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    yield from validate_nonnegative_field(spec, "minReadySeconds", _SPEC)
    if not selector:
        yield required(_SPEC / "selector")
    if spec.get("replicas") is None:
        yield required(_SPEC / "replicas")
    yield from validate_nonnegative_field(spec, "replicas", _SPEC)
    if template is None:
        yield required(_SPEC / "template")
        return
    matches = selector.items() <= labels_of(template).items()
    owner = "ReplicationController"
    yield from validate_controller_template(
        template, _SPEC / "template", selects=matches, owner=owner
    )


def validate_replication_controller_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate an updated replication controller. Errors are reported twice, as in
    kube-apiserver."""
    yield from validate_replication_controller(new)
    yield from validate_replication_controller(new)


def validate_pod_template_object(obj: Tree) -> Iterator[FieldError]:
    """Validate a PodTemplate."""
    return validate_pod_template(obj.get("template") or {}, Path("template"))
