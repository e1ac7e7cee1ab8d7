"""Rules for replication controllers and pod templates."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api.core.validation.common import not_negative
from kapiserver.api.core.validation.controllers import controlled_template
from kapiserver.api.core.validation.pods import pod_template
from kapiserver.api.errors import FieldError, Path, required
from kapiserver.api.objects import labels_of
from kapiserver.api.types import Tree

_SPEC = Path("spec")


def replication_controller(obj: Tree) -> Iterator[FieldError]:
    """A replication controller, new or changed."""
    spec = obj.get("spec") or {}
    selector, template = spec.get("selector") or {}, spec.get("template")
    yield from not_negative(spec, "minReadySeconds", _SPEC)
    if not selector:
        yield required(_SPEC / "selector")
    if spec.get("replicas") is None:
        yield required(_SPEC / "replicas")
    yield from not_negative(spec, "replicas", _SPEC)
    if template is None:
        yield required(_SPEC / "template")
        return
    selects = selector.items() <= labels_of(template).items()
    owner = "ReplicationController"
    yield from controlled_template(template, _SPEC / "template", selects=selects, owner=owner)


def changed_replication_controller(new: Tree, _: Tree) -> Iterator[FieldError]:
    """A changed replication controller. The rules of a new one are told twice, as kube-apiserver
    does."""
    yield from replication_controller(new)
    yield from replication_controller(new)


def lone_pod_template(obj: Tree) -> Iterator[FieldError]:
    """A pod template that no controller has."""
    return pod_template(obj.get("template") or {}, Path("template"))
