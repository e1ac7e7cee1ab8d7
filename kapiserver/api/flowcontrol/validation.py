"""Validation of flow schemas and priority level configurations.

Mirrors pkg/apis/flowcontrol/validation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from kapiserver.api import names
from kapiserver.api.accessors import name_of, value_at
from kapiserver.api.core.validation.common import validate_enum, validate_format, validate_required
from kapiserver.api.errors import FieldError, Path, duplicate, forbidden, invalid, not_supported
from kapiserver.api.errors import required as missing
from kapiserver.api.flowcontrol.defaults import MANDATORY_FLOW_SCHEMAS, MANDATORY_PRIORITY_LEVELS
from kapiserver.api.types import Tree

_SPEC = Path("spec")
_PRECEDENCE_MAX = 10000
_QUEUES_MAX = 10_000_000
_HASH_BITS = 60
_VERBS = (
    "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch",
)  # fmt: skip
_METHODS = ("ByNamespace", "ByUser")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_INVALID_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "


def validate_flow_schema(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated flow schema."""
    name, spec = name_of(obj), obj.get("spec") or {}
    yield from _validate_precedence(name, spec.get("matchingPrecedence") or 0)
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        # The internal Go struct, whose JSON form has the names of Go's fields.
        method_value = {"Type": method.get("type") or ""}
        yield not_supported(_SPEC / "distinguisherMethod" / "type", method_value, _METHODS)
    level = value_at(spec, "priorityLevelConfiguration", "name") or ""
    name_path = _SPEC / "priorityLevelConfiguration" / "name"
    if level:
        yield from validate_format(names.dns1123_subdomain, level, name_path)
    else:
        yield missing(name_path, "must reference a priority level")
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _validate_rule(rule, (_SPEC / "rules")[index])
    mandatory_spec = MANDATORY_FLOW_SCHEMAS.get(name)
    if mandatory_spec is not None and spec != mandatory_spec:
        yield invalid(_SPEC, spec, f"spec of '{name}' must equal the fixed value")


def _validate_precedence(name: str, precedence: int) -> Iterator[FieldError]:
    path = _SPEC / "matchingPrecedence"
    if precedence <= 0:
        yield invalid(path, precedence, "must be a positive value")
    if precedence > _PRECEDENCE_MAX:
        yield invalid(path, precedence, f"must not be greater than {_PRECEDENCE_MAX}")
    if precedence == 1 and name != "exempt":
        detail = "only the schema named 'exempt' may have matchingPrecedence 1"
        yield invalid(path, precedence, detail)


def _validate_rule(rule: Tree, path: Path) -> Iterator[FieldError]:
    if not rule.get("subjects"):
        yield missing(path / "subjects", "subjects must contain at least one value")
    for index, subject in enumerate(rule.get("subjects") or ()):
        yield from _validate_subject(subject, (path / "subjects")[index])
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        yield missing(path, detail)
    for index, policy_rule in enumerate(rule.get("resourceRules") or ()):
        yield from _validate_resource_rule(policy_rule, (path / "resourceRules")[index])
    for index, policy_rule in enumerate(rule.get("nonResourceRules") or ()):
        yield from _validate_non_resource_rule(policy_rule, (path / "nonResourceRules")[index])


def _validate_subject(subject: Tree, path: Path) -> Iterator[FieldError]:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        yield not_supported(path / "kind", kind, tuple(_SUBJECTS))
        return
    field_name = _SUBJECTS[kind]
    reference = subject.get(field_name)
    if reference is None:
        yield missing(path / field_name, f"{field_name} is required when subject kind is '{kind}'")
    else:
        yield from validate_required(reference, "name", path / field_name)
        if kind == "ServiceAccount":
            yield from _validate_account(reference, path / field_name)
    for other_kind, field in sorted(
        _SUBJECTS.items(), key=lambda item: _FORBIDDEN_ORDER.index(item[1])
    ):
        if other_kind != kind and subject.get(field) is not None:
            detail = f"{field} is forbidden when subject kind is not '{other_kind}'"
            yield forbidden(path / field, detail)


_FORBIDDEN_ORDER = ("serviceAccount", "user", "group")


def _validate_account(account: Tree, path: Path) -> Iterator[FieldError]:
    name, namespace = account.get("name") or "", account.get("namespace") or ""
    if name and name != "*":
        yield from validate_format(names.dns1123_subdomain, name, path / "name")
    if namespace:
        yield from validate_format(names.dns1123_label, namespace, path / "namespace")
    else:
        yield missing(path / "namespace", "must specify namespace for service account")


def _validate_verbs(verbs: Sequence[str], path: Path) -> Iterator[FieldError]:
    if not verbs:
        yield missing(path, "verbs must contain at least one value")
    elif "*" in verbs:
        yield from _validate_wildcard_alone(verbs, "verbs", path)
    elif not set(verbs) <= set(_VERBS):
        yield not_supported(path, list(verbs), _VERBS)


def _validate_wildcard_alone(values: Sequence[str], noun: str, path: Path) -> Iterator[FieldError]:
    if len(values) > 1 and "*" in values:
        detail = f"if '*' is present, must not specify other {noun}"
        yield invalid(path, list(values), detail)


def _validate_resource_rule(rule: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_verbs(rule.get("verbs") or (), path / "verbs")
    for name, plural, noun in (
        ("apiGroups", "api groups", "api group"),
        ("resources", "resources", "resource"),
    ):
        if not rule.get(name):
            yield missing(path / name, f"resource rules must supply at least one {noun}")
        yield from _validate_wildcard_alone(rule.get(name) or (), plural, path / name)
    namespaces, namespaces_path = rule.get("namespaces") or (), path / "namespaces"
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        yield missing(namespaces_path, detail)
    elif "*" in namespaces:
        yield from _validate_wildcard_alone(namespaces, "namespaces", namespaces_path)
    else:
        for index, namespace in enumerate(namespaces):
            for message in names.dns1123_label(namespace):
                yield invalid(namespaces_path[index], namespace, f"{_INVALID_NAMESPACE}{message}")


def _validate_non_resource_rule(rule: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_verbs(rule.get("verbs") or (), path / "verbs")
    urls, urls_path = rule.get("nonResourceURLs") or (), path / "nonResourceURLs"
    if not urls:
        yield missing(urls_path, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        yield from _validate_wildcard_alone(urls, "non-resource URLs", urls_path)
    else:
        for index, url in enumerate(urls):
            detail = _url_problem(url)
            if detail:
                yield invalid(urls_path[index], url, detail)


def _url_problem(url: str) -> str:
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    if url.count("*") > 1 or ("*" in url and not url.endswith("/*")):
        return "wildcard can only do suffix matching"
    return ""


def validate_conditions_update(new: Tree, _: Tree) -> Iterator[FieldError]:
    """Validate the status conditions of a flow schema or of a priority level."""
    seen: set[str] = set()
    for index, condition in enumerate(value_at(new, "status", "conditions") or ()):
        type_path = (Path("status") / "conditions")[index] / "type"
        type_ = condition.get("type") or ""
        if type_ in seen:
            yield duplicate(type_path, type_)
        seen.add(type_)
        if not type_:
            yield missing(type_path, "must not be empty")


# Priority levels.


def validate_priority_level(obj: Tree) -> Iterator[FieldError]:
    """Validate a new or updated priority level."""
    name, spec = name_of(obj), obj.get("spec") or {}
    type_ = spec.get("type") or ""
    if (name == "exempt") != (type_ == "Exempt"):
        detail = "type must be 'Exempt' if and only if name is 'exempt'"
        yield invalid(_SPEC / "type", type_, detail)
    limited, exempt = spec.get("limited"), spec.get("exempt")
    if type_ == "Exempt":
        if limited is not None:
            yield forbidden(_SPEC / "limited", "must be nil if the type is not Limited")
        if exempt is not None:
            yield from _validate_shares(exempt, _SPEC / "exempt")
            yield from _validate_lendable(exempt, _SPEC / "exempt")
    elif type_ == "Limited":
        if exempt is not None:
            yield forbidden(_SPEC / "exempt", "must be nil if the type is Limited")
        if limited is None:
            yield missing(_SPEC / "limited", "must not be empty when type is Limited")
        else:
            yield from _validate_limited(limited, _SPEC / "limited")
    else:
        yield from validate_enum(type_, ("Exempt", "Limited"), _SPEC / "type")
    yield from _validate_mandatory_level(name, spec)


def _validate_mandatory_level(name: str, spec: Tree) -> Iterator[FieldError]:
    mandatory_spec = MANDATORY_PRIORITY_LEVELS.get(name)
    if mandatory_spec is None:
        return
    if name == "exempt":
        if {**spec, "exempt": None} != {**mandatory_spec, "exempt": None}:
            detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
            yield invalid(_SPEC, spec, detail)
    elif spec != mandatory_spec:
        yield invalid(_SPEC, spec, f"spec of '{name}' must equal the fixed value")


def _validate_shares(level: Tree, path: Path) -> Iterator[FieldError]:
    shares = level.get("nominalConcurrencyShares") or 0
    if shares < 0:
        yield invalid(path / "nominalConcurrencyShares", shares, "must be a non-negative integer")


def _validate_lendable(level: Tree, path: Path) -> Iterator[FieldError]:
    lendable = level.get("lendablePercent") or 0
    if not 0 <= lendable <= 100:
        yield invalid(path / "lendablePercent", lendable, names.inclusive_range(0, 100))


def _validate_limited(level: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_shares(level, path)
    yield from _validate_response(level.get("limitResponse") or {}, path / "limitResponse")
    yield from _validate_lendable(level, path)
    borrowing_limit = level.get("borrowingLimitPercent")
    if borrowing_limit is not None and borrowing_limit < 0:
        detail = "if specified, must be a non-negative integer"
        yield invalid(path / "borrowingLimitPercent", borrowing_limit, detail)


def _validate_response(response: Tree, path: Path) -> Iterator[FieldError]:
    queuing = response.get("queuing")
    match response.get("type"):
        case "Reject":
            if queuing is not None:
                detail = "must be nil if limited.limitResponse.type is not Limited"
                yield forbidden(path / "queuing", detail)
        case "Queue":
            if queuing is None:
                detail = "must not be empty if limited.limitResponse.type is Limited"
                yield missing(path / "queuing", detail)
            else:
                yield from _validate_queuing(queuing, path / "queuing")
        case type_:
            yield from validate_enum(type_, ("Queue", "Reject"), path / "type")
            if type_ and queuing is not None:
                yield forbidden(path / "queuing", "")


def _validate_queuing(queuing: Tree, path: Path) -> Iterator[FieldError]:
    length, queues, hand_size = (
        queuing.get(name) or 0 for name in ("queueLengthLimit", "queues", "handSize")
    )
    if length <= 0:
        yield invalid(path / "queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield invalid(path / "queues", queues, "must be positive")
    elif queues > _QUEUES_MAX:
        yield invalid(path / "queues", queues, f"must not be greater than {_QUEUES_MAX}")
    hand_size_path = path / "handSize"
    if hand_size <= 0:
        yield invalid(hand_size_path, hand_size, "must be positive")
    elif hand_size > queues:
        yield invalid(hand_size_path, hand_size, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand_size) > _HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand_size} should not be "
            f"greater than {_HASH_BITS}"
        )
        yield invalid(hand_size_path, hand_size, detail)
