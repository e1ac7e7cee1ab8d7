"""Rules for priorities, and for pods that are placed together.

Mirrors pkg/apis/scheduling/validation and the declared rules of its types.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.core.validation.common import checked, checked_name
from kapiserver.api.core.validation.conditions import conditions
from kapiserver.api.errors import (
    FieldError,
    Path,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many,
)
from kapiserver.api.label_selectors import validate_label_key
from kapiserver.api.metadata import immutable
from kapiserver.api.objects import name_of
from kapiserver.api.types import Tree

_SYSTEM = "system-"
_USER_MAX = 1_000_000_000
SYSTEM_CLASSES = {"system-node-critical": 2_000_001_000, "system-cluster-critical": 2_000_000_000}
_PREEMPTION = ("Never", "PreemptLowerPriority")
_SPEC = Path("spec")
_DEPTH_MAX = 4
_TEMPLATES_MAX = 8


def priority_class(obj: Tree) -> Iterator[FieldError]:
    """A new class."""
    name, value = name_of(obj), obj.get("value") or 0
    if name.startswith(_SYSTEM):
        wrong = _unlike_system(name, value, default=bool(obj.get("globalDefault")))
        if wrong:
            detail = (
                f"priority class names with '{_SYSTEM}' prefix are reserved for system use only. "
                f"error: {wrong}"
            )
            yield forbidden(Path("metadata") / "name", detail)
    elif value > _USER_MAX:
        detail = f"maximum allowed value of a user defined priority is {_USER_MAX}"
        yield forbidden(Path("value"), detail)
    yield from _preemption(obj, Path())


def _unlike_system(name: str, value: int, *, default: bool) -> str:
    wanted = SYSTEM_CLASSES.get(name)
    if wanted is None:
        return f"{name} is not a known system priority class"
    if value != wanted:
        return f"value of {name} PriorityClass must be {wanted}"
    if default:
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


def _preemption(obj: Tree, path: Path) -> Iterator[FieldError]:
    policy = obj.get("preemptionPolicy")
    if policy == "":
        yield required(path / "preemptionPolicy")
    elif policy is not None and policy not in _PREEMPTION:
        yield not_supported(path / "preemptionPolicy", policy, _PREEMPTION)


def changed_priority_class(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A class that is to be changed: pods have its priority already."""
    if (new.get("value") or 0) != (old.get("value") or 0):
        yield forbidden(Path("value"), "may not be changed in an update.")
    name = "preemptionPolicy"
    yield from immutable(new.get(name), old.get(name), Path(name))


# Pods that are placed together.


def pod_group(obj: Tree) -> Iterator[FieldError]:
    """A group of pods, or of groups."""
    spec = obj.get("spec") or {}
    if obj.get("kind") == "CompositePodGroup" and spec.get("workloadRef") is None:
        yield required(_SPEC / "workloadRef")
    reference = spec.get("workloadRef") or {}
    if spec.get("workloadRef") is not None:
        for name in ("workloadName", "templateName"):
            at = _SPEC / "workloadRef" / name
            yield from checked_name(names.dns1123_subdomain, reference.get(name), at)
    yield from _group(spec, _SPEC)


def _group(group: Tree, path: Path) -> Iterator[FieldError]:
    policy, at = group.get("schedulingPolicy") or {}, path / "schedulingPolicy"
    yield from one_member(policy, ("basic", "gang"), at)
    gang = policy.get("gang") or {}
    for name in ("minCount", "minGroupCount"):
        least = gang.get(name)
        if least is not None and least < 1:
            yield invalid(at / "gang" / name, least, "must be greater than or equal to 1")
    mode = group.get("disruptionMode")
    if mode is not None:
        yield from one_member(mode, ("single", "all"), path / "disruptionMode")
    topology = (group.get("schedulingConstraints") or {}).get("topology") or ()
    at = path / "schedulingConstraints" / "topology"
    if len(topology) > 1:
        yield too_many(at, len(topology), 1)
    for index, one in enumerate(topology):
        if not one.get("key"):
            yield required(at[index] / "key")
        else:
            yield from validate_label_key(one["key"], at[index] / "key")
    if group.get("priorityClassName"):
        where = path / "priorityClassName"
        yield from checked(names.dns1123_subdomain, group["priorityClassName"], where)
    yield from _preemption(group, path)


def one_member(obj: Tree, members: Sequence[str], path: Path) -> Iterator[FieldError]:
    """Exactly one of several fields (a union of declared rules)."""
    given = [name for name in members if obj.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in members)
    if not given:
        yield invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        shown = f"{{{', '.join(given)}}}"
        yield invalid(path, shown, f"must specify exactly one of: {listed}")


def changed_pod_group(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A group that is to be changed: its spec stays."""
    yield from immutable(new.get("spec"), old.get("spec"), _SPEC)


def changed_pod_group_status(new: Tree, _: Tree) -> Iterator[FieldError]:
    """What is known of a group: claims only of those it names."""
    yield from conditions(
        (new.get("status") or {}).get("conditions"), Path("status") / "conditions"
    )
    claims = {one.get("name") for one in (new.get("spec") or {}).get("resourceClaims") or ()}
    found = (new.get("status") or {}).get("resourceClaimStatuses") or ()
    for index, status in enumerate(found):
        if status.get("name") not in claims:
            at = (Path("status") / "resourceClaimStatuses")[index] / "name"
            detail = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(at, status.get("name") or "", detail)


def workload(obj: Tree) -> Iterator[FieldError]:
    """What an application's groups look like."""
    spec = obj.get("spec") or {}
    reference, at = spec.get("controllerRef"), _SPEC / "controllerRef"
    if reference is not None:
        if reference.get("apiGroup"):
            yield from checked(names.dns1123_subdomain, reference["apiGroup"], at / "apiGroup")
        for name in ("kind", "name"):
            yield from checked_name(names.path_segment, reference.get(name), at / name)
    groups = spec.get("podGroupTemplates") or ()
    yield from _templates(groups, _SPEC / "podGroupTemplates")
    composite = spec.get("compositePodGroupTemplates") or ()
    at = _SPEC / "compositePodGroupTemplates"
    yield from _templates(composite, at)
    seen = {one.get("name") or "" for one in groups}
    yield from _names_across(composite, at, seen)
    for index, one in enumerate(composite):
        if _depth(one) >= _DEPTH_MAX:
            detail = f"maximum template hierarchy depth is {_DEPTH_MAX}"
            yield invalid(at[index], one.get("compositePodGroupTemplates"), detail)
    if len({_priority(one) for one in _all_templates(spec)}) > 1:
        yield invalid(_SPEC, None, _one_priority(groups))
    for index, one in enumerate(composite):
        yield from _childless(one, at[index])


def changed_workload(new: Tree, old: Tree) -> Iterator[FieldError]:
    """A workload that is to be changed: its templates stay, its controller may be named once."""
    yield from workload(new)
    spec, before = new.get("spec") or {}, old.get("spec") or {}
    if before.get("controllerRef") is not None:
        where = _SPEC / "controllerRef"
        yield from immutable(spec.get("controllerRef"), before["controllerRef"], where)
    for name in ("podGroupTemplates", "compositePodGroupTemplates"):
        yield from immutable(spec.get(name) or None, before.get(name) or None, _SPEC / name)


def _templates(templates: Sequence[Tree], path: Path) -> Iterator[FieldError]:
    if len(templates) > _TEMPLATES_MAX:
        yield too_many(path, len(templates), _TEMPLATES_MAX)
    seen: set[str] = set()
    for index, one in enumerate(templates):
        at, name = path[index], one.get("name") or ""
        yield from checked_name(names.dns1123_label, name, at / "name")
        if name in seen:
            yield duplicate(at, {"name": name})
        seen.add(name)
        yield from _group(one, at)
        for kind in ("podGroupTemplates", "compositePodGroupTemplates"):
            yield from _templates(one.get(kind) or (), at / kind)


def _names_across(templates: Sequence[Tree], path: Path, seen: set[str]) -> Iterator[FieldError]:
    # Within one list the declared rule speaks; here only of names in different ones.
    yield from _taken(templates, path, seen)
    for index, one in enumerate(templates):
        groups = one.get("podGroupTemplates") or ()
        yield from _taken(groups, path[index] / "podGroupTemplates", seen)
        below = path[index] / "compositePodGroupTemplates"
        yield from _names_across(one.get("compositePodGroupTemplates") or (), below, seen)


def _taken(templates: Sequence[Tree], path: Path, seen: set[str]) -> Iterator[FieldError]:
    own = [one.get("name") or "" for one in templates]
    for index, name in enumerate(own):
        if name in seen:
            yield duplicate(path[index] / "name", name)
    seen.update(own)


def _depth(template: Tree) -> int:
    below = template.get("compositePodGroupTemplates") or ()
    return 1 + max((_depth(one) for one in below), default=0)


def _all_templates(holder: Tree) -> Iterator[Tree]:
    yield from holder.get("podGroupTemplates") or ()
    for one in holder.get("compositePodGroupTemplates") or ():
        yield one
        yield from _all_templates(one)


def _priority(template: Tree) -> tuple[str, int | None]:
    return template.get("priorityClassName") or "", template.get("priority")


def _one_priority(groups: Sequence[Tree]) -> str:
    if len({_priority(one) for one in groups}) > 1:
        return "detected multiple priority configurations"
    return "all priority and priorityClassName values must be identical, detected multiple values"


def _childless(template: Tree, path: Path) -> Iterator[FieldError]:
    below = template.get("compositePodGroupTemplates") or ()
    if not below and not template.get("podGroupTemplates"):
        detail = "must have at least one child PodGroupTemplate or CompositePodGroupTemplate"
        yield invalid(path, template.get("name") or "", detail)
    for index, one in enumerate(below):
        yield from _childless(one, (path / "compositePodGroupTemplates")[index])
