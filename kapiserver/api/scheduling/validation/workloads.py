"""Validation of workloads: templates of pod groups, and the hierarchy of groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.declarative_validation import (
    check_immutable_fields,
    check_max_items,
    check_names_unchanged,
    check_optional_text,
    check_required_text,
    check_union,
    check_unique,
    same_union_members,
)
from kapiserver.api.errors import FieldError, Path, duplicate, invalid
from kapiserver.api.scheduling.validation.pod_groups import changed_group, group
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_DEPTH_MAX = 4
_TEMPLATES_MAX = 8
_KINDS = ("podGroupTemplates", "compositePodGroupTemplates")


def validate_workload(obj: Tree) -> Iterator[FieldError]:
    """Validate a new workload."""
    spec = obj.get("spec") or {}
    yield from _validate_hierarchy(spec)
    yield from check_union(spec, _KINDS, _SPEC)
    reference, controller_ref_path = spec.get("controllerRef"), _SPEC / "controllerRef"
    if reference is not None:
        yield from check_optional_text(
            reference.get("apiGroup"), names.dns1123_subdomain, controller_ref_path / "apiGroup"
        )
        for name in ("kind", "name"):
            yield from check_required_text(
                reference.get(name), names.path_segment, controller_ref_path / name
            )
    for kind in _KINDS:
        yield from _validate_templates(spec.get(kind) or (), _SPEC / kind)


def validate_workload_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A workload that is to be changed: of its templates, how many are needed may change."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    yield from _validate_hierarchy(spec)
    if not same_union_members(spec, old_spec, _KINDS):
        yield from check_union(spec, _KINDS, _SPEC)
    yield from check_immutable_fields(spec, old_spec, ("controllerRef",), _SPEC)
    yield from _validate_templates_update(spec, old_spec, _SPEC)


def _validate_templates(templates: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    if len(templates) > _TEMPLATES_MAX:
        yield from check_max_items(templates, _TEMPLATES_MAX, path)
        return
    yield from check_unique(templates, _name, path)
    for index, template in enumerate(templates):
        yield from check_required_text(_name(template), names.dns1123_label, path[index] / "name")
        yield from group(template, path[index])
        for kind in _KINDS:
            yield from _validate_templates(template.get(kind) or (), path[index] / kind)


def _name(template: Tree) -> str:
    return template.get("name") or ""


def _validate_templates_update(new: Tree, old: Tree, path: Path) -> Iterator[FieldError]:
    for kind in _KINDS:
        its, old_kind, kind_path = new.get(kind) or (), old.get(kind) or (), path / kind
        yield from check_names_unchanged(its, old_kind, kind_path)
        known = {_name(one): one for one in old_kind}
        for index, one in enumerate(its):
            kept = known.get(_name(one))
            if kept is None:
                yield from _validate_templates([one], kind_path)
            else:
                yield from changed_group(one, kept, kind_path[index])
                yield from _validate_templates_update(one, kept, kind_path[index])


# What is said of the templates together.


def _validate_hierarchy(spec: Tree) -> Iterator[FieldError]:
    groups, composite = (spec.get(kind) or () for kind in _KINDS)
    at = _SPEC / _KINDS[1]
    yield from _names_across(composite, at, {_name(group) for group in groups})
    for index, one in enumerate(composite):
        if _depth(one) >= _DEPTH_MAX:
            detail = f"maximum template hierarchy depth is {_DEPTH_MAX}"
            yield invalid(at[index], one.get(_KINDS[1]), detail)
    if len({_priority(one) for one in _all_templates(spec)}) > 1:
        yield invalid(_SPEC, None, _one_priority(groups))
    for index, one in enumerate(composite):
        yield from _childless(one, at[index])


def _names_across(templates: Sequence[Tree], path: Path, seen: set[str]) -> Iterator[FieldError]:
    # Within one list the declared rule speaks; here only of names in different ones.
    yield from _taken(templates, path, seen)
    for index, template in enumerate(templates):
        yield from _taken(template.get(_KINDS[0]) or (), path[index] / _KINDS[0], seen)
        yield from _names_across(template.get(_KINDS[1]) or (), path[index] / _KINDS[1], seen)


def _taken(templates: Sequence[Tree], path: Path, seen: set[str]) -> Iterator[FieldError]:
    own = [_name(template) for template in templates]
    for index, name in enumerate(own):
        if name in seen:
            yield duplicate(path[index] / "name", name)
    seen.update(own)


def _depth(template: Tree) -> int:
    return 1 + max((_depth(one) for one in template.get(_KINDS[1]) or ()), default=0)


def _all_templates(holder: Tree) -> Iterator[Tree]:
    yield from holder.get(_KINDS[0]) or ()
    for one in holder.get(_KINDS[1]) or ():
        yield one
        yield from _all_templates(one)


def _priority(template: Tree) -> tuple[str, int | None]:
    return template.get("priorityClassName") or "", template.get("priority")


def _one_priority(groups: Sequence[Tree]) -> str:
    if len({_priority(group) for group in groups}) > 1:
        return "detected multiple priority configurations"
    return "all priority and priorityClassName values must be identical, detected multiple values"


def _childless(template: Tree, path: Path) -> Iterator[FieldError]:
    below = template.get(_KINDS[1]) or ()
    if not below and not template.get(_KINDS[0]):
        detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        yield invalid(path, _name(template), detail)
    for index, one in enumerate(below):
        yield from _childless(one, (path / _KINDS[1])[index])
