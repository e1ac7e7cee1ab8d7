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
from kapiserver.api.scheduling.validation.pod_groups import validate_group, validate_group_update
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_DEPTH_MAX = 4
_TEMPLATES_MAX = 8
_TEMPLATE_LISTS = ("podGroupTemplates", "compositePodGroupTemplates")


def validate_workload(obj: Tree) -> Iterator[FieldError]:
    """Validate a new workload."""
    spec = obj.get("spec") or {}
    yield from _validate_hierarchy(spec)
    yield from check_union(spec, _TEMPLATE_LISTS, _SPEC)
    reference, controller_ref_path = spec.get("controllerRef"), _SPEC / "controllerRef"
    if reference is not None:
        yield from check_optional_text(
            reference.get("apiGroup"), names.dns1123_subdomain, controller_ref_path / "apiGroup"
        )
        for name in ("kind", "name"):
            yield from check_required_text(
                reference.get(name), names.path_segment, controller_ref_path / name
            )
    for kind in _TEMPLATE_LISTS:
        yield from _validate_templates(spec.get(kind) or (), _SPEC / kind)


def validate_workload_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated workload. Of its templates, only the minimum counts are mutable."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    yield from _validate_hierarchy(spec)
    if not same_union_members(spec, old_spec, _TEMPLATE_LISTS):
        yield from check_union(spec, _TEMPLATE_LISTS, _SPEC)
    yield from check_immutable_fields(spec, old_spec, ("controllerRef",), _SPEC)
    yield from _validate_templates_update(spec, old_spec, _SPEC)


def _validate_templates(templates: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    if len(templates) > _TEMPLATES_MAX:
        yield from check_max_items(templates, _TEMPLATES_MAX, path)
        return
    yield from check_unique(templates, _template_name, path)
    for index, template in enumerate(templates):
        yield from check_required_text(
            _template_name(template), names.dns1123_label, path[index] / "name"
        )
        yield from validate_group(template, path[index])
        for kind in _TEMPLATE_LISTS:
            yield from _validate_templates(template.get(kind) or (), path[index] / kind)


def _template_name(template: Tree) -> str:
    return template.get("name") or ""


def _validate_templates_update(new: Tree, old: Tree, path: Path) -> Iterator[FieldError]:
    for kind in _TEMPLATE_LISTS:
        templates, old_templates, kind_path = new.get(kind) or (), old.get(kind) or (), path / kind
        yield from check_names_unchanged(templates, old_templates, kind_path)
        old_by_name = {_template_name(template): template for template in old_templates}
        for index, template in enumerate(templates):
            old_template = old_by_name.get(_template_name(template))
            if old_template is None:
                yield from _validate_templates([template], kind_path)
            else:
                yield from validate_group_update(template, old_template, kind_path[index])
                yield from _validate_templates_update(template, old_template, kind_path[index])


# Rules about all templates together.


def _validate_hierarchy(spec: Tree) -> Iterator[FieldError]:
    templates, composites = (spec.get(kind) or () for kind in _TEMPLATE_LISTS)
    composite_path = _SPEC / _TEMPLATE_LISTS[1]
    yield from _validate_unique_names(
        composites, composite_path, {_template_name(group) for group in templates}
    )
    for index, template in enumerate(composites):
        if _depth(template) >= _DEPTH_MAX:
            detail = f"maximum template hierarchy depth is {_DEPTH_MAX}"
            yield invalid(composite_path[index], template.get(_TEMPLATE_LISTS[1]), detail)
    if len({_priority_of(template) for template in _all_templates(spec)}) > 1:
        yield invalid(_SPEC, None, _priority_message(templates))
    for index, template in enumerate(composites):
        yield from _validate_children(template, composite_path[index])


def _validate_unique_names(
    templates: Sequence[Tree], path: Path, seen_names: set[str]
) -> Iterator[FieldError]:
    # Duplicates within one list are reported by declarative validation.
    yield from _validate_names_not_taken(templates, path, seen_names)
    for index, template in enumerate(templates):
        yield from _validate_names_not_taken(
            template.get(_TEMPLATE_LISTS[0]) or (), path[index] / _TEMPLATE_LISTS[0], seen_names
        )
        yield from _validate_unique_names(
            template.get(_TEMPLATE_LISTS[1]) or (), path[index] / _TEMPLATE_LISTS[1], seen_names
        )


def _validate_names_not_taken(
    templates: Sequence[Tree], path: Path, seen_names: set[str]
) -> Iterator[FieldError]:
    template_names = [_template_name(template) for template in templates]
    for index, name in enumerate(template_names):
        if name in seen_names:
            yield duplicate(path[index] / "name", name)
    seen_names.update(template_names)


def _depth(template: Tree) -> int:
    return 1 + max((_depth(child) for child in template.get(_TEMPLATE_LISTS[1]) or ()), default=0)


def _all_templates(parent: Tree) -> Iterator[Tree]:
    yield from parent.get(_TEMPLATE_LISTS[0]) or ()
    for template in parent.get(_TEMPLATE_LISTS[1]) or ():
        yield template
        yield from _all_templates(template)


def _priority_of(template: Tree) -> tuple[str, int | None]:
    return template.get("priorityClassName") or "", template.get("priority")


def _priority_message(templates: Sequence[Tree]) -> str:
    if len({_priority_of(group) for group in templates}) > 1:
        return "detected multiple priority configurations"
    return "all priority and priorityClassName values must be identical, detected multiple values"


def _validate_children(template: Tree, path: Path) -> Iterator[FieldError]:
    children = template.get(_TEMPLATE_LISTS[1]) or ()
    if not children and not template.get(_TEMPLATE_LISTS[0]):
        detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        yield invalid(path, _template_name(template), detail)
    for index, child in enumerate(children):
        yield from _validate_children(child, (path / _TEMPLATE_LISTS[1])[index])
