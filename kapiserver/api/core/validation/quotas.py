"""Validation of limit ranges and resource quotas."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.api import names
from kapiserver.api.accessors import value_at
from kapiserver.api.core.v1 import ScopeSelector
from kapiserver.api.core.validation.common import validate_format
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.core.validation.resources import (
    amount,
    may_overcommit,
    validate_container_resource_name,
    validate_resource_name,
    validate_resource_quantity,
)
from kapiserver.api.errors import FieldError, Path, duplicate, forbidden, invalid, required
from kapiserver.api.quantity import parse
from kapiserver.api.types import Tree

_LIMITS = Path("spec") / "limits"
_LIMIT_TYPES = ("Container", "PersistentVolumeClaim", "Pod")
_LIMIT_MAPS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_LIMIT_ORDER = (
    # smaller and larger map, map of the error's path, map of its value, names in messages
    ("min", "max", "min", "min", "min value", "max value"),
    ("min", "defaultRequest", "defaultRequest", "defaultRequest", "min value",
     "default request value"),
    ("defaultRequest", "max", "defaultRequest", "defaultRequest", "default request value",
     "max value"),
    ("defaultRequest", "default", "defaultRequest", "defaultRequest", "default request value",
     "default limit value"),
    ("min", "default", "default", "min", "min value", "default value"),
    ("default", "max", "default", "max", "default value", "max value"),
)  # fmt: skip
_MILLI_MAX = (2**63 - 1) // 1000


def validate_limit_range(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated limit range."""
    seen: set[str] = set()
    for index, item in enumerate(value_at(obj, "spec", "limits") or ()):
        item_path, type_ = _LIMITS[index], item.get("type") or ""
        yield from _validate_limit_type(type_, item_path / "type")
        if type_ in seen:
            yield duplicate(item_path / "type", type_)
        seen.add(type_)
        yield from _validate_limit_names(item, type_, item_path)
        for name in sorted({key for kind in _limit_maps(type_) for key in item.get(kind) or ()}):
            limit_values = {kind: (item.get(kind) or {}).get(name) for kind in _limit_maps(type_)}
            yield from _validate_limit_values(name, limit_values, item_path)


def _limit_maps(type_: str) -> tuple[str, ...]:
    return ("max", "min", "maxLimitRequestRatio") if type_ == "Pod" else _LIMIT_MAPS


def _validate_limit_type(type_: str, path: Path) -> Iterator[FieldError]:
    messages = list(validate_format(names.qualified_name, type_, path))
    yield from messages
    if not messages and "/" not in type_ and type_ not in _LIMIT_TYPES:
        yield invalid(path, type_, "must be a standard limit type or fully qualified")


def _validate_limit_names(item: Tree, type_: str, path: Path) -> Iterator[FieldError]:
    check = (
        validate_container_resource_name
        if type_ in ("Container", "Pod")
        else validate_resource_name
    )
    for kind in ("max", "min", "default", "defaultRequest"):
        if type_ == "Pod" and kind.startswith("default"):
            if item.get(kind):
                yield forbidden(path / kind, "may not be specified when `type` is 'Pod'")
            continue
        for name in item.get(kind) or ():
            yield from check(name, (path / kind)[name])
    limited_names = {*(item.get("min") or ()), *(item.get("max") or ())}
    if type_ == "PersistentVolumeClaim" and "storage" not in limited_names:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        yield required(path / "limits", detail)
    for name in item.get("maxLimitRequestRatio") or ():
        yield from check(name, (path / "maxLimitRequestRatio")[name])


def _validate_limit_values(
    name: str, limit_values: dict[str, str | None], path: Path
) -> Iterator[FieldError]:
    for smaller, larger, path_map, value_map, low_name, high_name in _LIMIT_ORDER:
        low, high = limit_values.get(smaller), limit_values.get(larger)
        if low is not None and high is not None and amount(low) > amount(high):
            detail = f"{low_name} {low} is greater than {high_name} {high}"
            yield invalid((path / path_map)[name], limit_values[value_map], detail)
    ratio = limit_values.get("maxLimitRequestRatio")
    if ratio is not None:
        yield from _validate_limit_ratio(ratio, limit_values, (path / "maxLimitRequestRatio")[name])
    limit, request = limit_values.get("default"), limit_values.get("defaultRequest")
    if limit is None or request is None or may_overcommit(name):
        return
    if amount(limit) != amount(request):
        detail = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        yield invalid((path / "defaultRequest")[name], request, detail)


def _validate_limit_ratio(
    ratio: str, limit_ratio: dict[str, str | None], path: Path
) -> Iterator[FieldError]:
    if amount(ratio) < 1:
        yield invalid(path, ratio, f"ratio {ratio} is less than 1")
    low_text, high_text = limit_ratio.get("min"), limit_ratio.get("max")
    if low_text is None or high_text is None:
        return
    minimum, maximum, limit = parse(low_text), parse(high_text), parse(ratio)
    low, high, ratio_value = minimum.scaled(0), maximum.scaled(0), float(limit.scaled(0))
    if max(ratio_value, low, high) < _MILLI_MAX:
        low, high = minimum.scaled(-3), maximum.scaled(-3)
        ratio_value = limit.scaled(-3) / 1000
    if low and ratio_value > high / low:
        detail = f"ratio {ratio} is greater than max/min = {high / low:f}"
        yield invalid(path, ratio, detail)


# Resource quotas.

_SPEC = Path("spec")
_NOT_IN_QUOTAS = ("storage",)
_COMPUTE = (
    "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory",
)  # fmt: skip
_POD_RESOURCES = ("pods", *_COMPUTE)
_SCOPES: dict[str, tuple[str, ...]] = {
    "BestEffort": ("pods",),
    "CrossNamespacePodAffinity": _POD_RESOURCES,
    "NotBestEffort": _POD_RESOURCES,
    "NotTerminating": _POD_RESOURCES,
    "PriorityClass": _POD_RESOURCES,
    "Terminating": _POD_RESOURCES,
    "VolumeAttributesClass": ("persistentvolumeclaims", "requests.storage"),
}
"""The standard resources that a quota with this scope can limit."""
_CONFLICTING_SCOPES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_MUST_BE_EXISTS = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def validate_resource_quota(obj: Tree) -> Iterator[FieldError]:
    """Validate a new quota."""
    spec = obj.get("spec") or {}
    yield from _validate_resource_list(spec.get("hard"), _SPEC / "hard")
    yield from _validate_scopes(spec)
    yield from _validate_scope_selector(spec)
    yield from validate_quota_status_update(obj, {})


def validate_resource_quota_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated quota. Its scopes are immutable."""
    spec, old_spec = new.get("spec") or {}, old.get("spec") or {}
    yield from _validate_resource_list(spec.get("hard"), _SPEC / "hard")
    yield from _validate_scopes(spec)
    yield from _validate_scope_selector(spec)
    if {*(spec.get("scopes") or ())} != {*(old_spec.get("scopes") or ())}:
        yield invalid(_SPEC / "scopes", spec.get("scopes"), "field is immutable")


def validate_quota_status_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status of a quota."""
    for kind in ("hard", "used"):
        yield from _validate_resource_list(value_at(new, "status", kind), Path("status") / kind)


def _validate_resource_list(amounts: Tree | None, path: Path) -> Iterator[FieldError]:
    for name, text in (amounts or {}).items():
        yield from validate_resource_name(name, path[name])
        if "/" not in name and not _is_quota(name):
            yield invalid(path[name], name, "must be a standard resource for quota")
        yield from validate_resource_quantity(name, text, path[name])


def _is_quota(name: str) -> bool:
    return (
        "/" not in name
        and name not in _NOT_IN_QUOTAS
        and not any(validate_resource_name(name, _SPEC))
    )


def _validate_scopes(spec: Tree) -> Iterator[FieldError]:
    scopes, path = spec.get("scopes") or [], _SPEC / "scopes"
    for scope in scopes:
        if scope not in _SCOPES:
            yield invalid(path, scopes, "unsupported scope")
        for _ in _resources_out_of_scope(scope, spec):
            yield invalid(path, scopes, "unsupported scope applied to resource")
    for pair in _CONFLICTING_SCOPES:
        if pair <= set(scopes):
            yield invalid(path, scopes, "conflicting scopes")


def _resources_out_of_scope(scope: str, spec: Tree) -> list[str]:
    allowed_names = _SCOPES.get(scope)
    hard = sorted(spec.get("hard") or ())
    return [
        name for name in hard if allowed_names and _is_quota(name) and name not in allowed_names
    ]


def _validate_scope_selector(spec: Tree) -> Iterator[FieldError]:
    selector = spec.get("scopeSelector")
    if selector is None:
        return
    path, selector_scopes = _SPEC / "scopeSelector" / "matchExpressions", set()
    for requirement in selector.get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName") or "", requirement.get("operator") or ""
        if scope not in _SCOPES:
            yield invalid(path / "scopeName", scope, "unsupported scope")
        for _ in _resources_out_of_scope(scope, spec):
            value = as_go_struct(selector, ScopeSelector)
            yield invalid(path, value, "unsupported scope applied to resource")
        if scope in _SCOPES and not scope.endswith("Class") and operator != "Exists":
            yield invalid(path / "operator", operator, _MUST_BE_EXISTS)
        yield from _validate_scope_values(operator, requirement.get("values") or [], path)
        selector_scopes.add(scope)
    for pair in _CONFLICTING_SCOPES:
        if pair <= selector_scopes:
            yield invalid(path, spec.get("scopes"), "conflicting scopes")


def _validate_scope_values(operator: str, values: list[str], path: Path) -> Iterator[FieldError]:
    if operator in ("In", "NotIn"):
        if not values:
            detail = (
                "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            )
            yield required(path / "values", detail)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            detail = (
                "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            )
            yield invalid(path / "values", values, detail)
    else:
        yield invalid(path / "operator", operator, "not a valid selector operator")
