"""Validation of how requests are sorted and share the server.

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
_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "


def validate_flow_schema(obj: Tree) -> Iterator[FieldError]:
    """A schema, new or changed."""
    name, spec = name_of(obj), obj.get("spec") or {}
    yield from _validate_precedence(name, spec.get("matchingPrecedence") or 0)
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        # The field as Go spells it: the inner type has no names of its own.
        shown = {"Type": method.get("type") or ""}
        yield not_supported(_SPEC / "distinguisherMethod" / "type", shown, _METHODS)
    level = value_at(spec, "priorityLevelConfiguration", "name") or ""
    name_path = _SPEC / "priorityLevelConfiguration" / "name"
    if level:
        yield from validate_format(names.dns1123_subdomain, level, name_path)
    else:
        yield missing(name_path, "must reference a priority level")
    for index, rule in enumerate(spec.get("rules") or ()):
        yield from _validate_rule(rule, (_SPEC / "rules")[index])
    fixed = MANDATORY_FLOW_SCHEMAS.get(name)
    if fixed is not None and spec != fixed:
        yield invalid(_SPEC, spec, f"spec of '{name}' must equal the fixed value")


def _validate_precedence(name: str, precedence: int) -> Iterator[FieldError]:
    matching_precedence_path = _SPEC / "matchingPrecedence"
    if precedence <= 0:
        yield invalid(matching_precedence_path, precedence, "must be a positive value")
    if precedence > _PRECEDENCE_MAX:
        yield invalid(
            matching_precedence_path, precedence, f"must not be greater than {_PRECEDENCE_MAX}"
        )
    if precedence == 1 and name != "exempt":
        detail = "only the schema named 'exempt' may have matchingPrecedence 1"
        yield invalid(matching_precedence_path, precedence, detail)


def _validate_rule(rule: Tree, path: Path) -> Iterator[FieldError]:
    if not rule.get("subjects"):
        yield missing(path / "subjects", "subjects must contain at least one value")
    for index, subject in enumerate(rule.get("subjects") or ()):
        yield from _validate_subject(subject, (path / "subjects")[index])
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        detail = "at least one of resourceRules and nonResourceRules has to be non-empty"
        yield missing(path, detail)
    for index, one in enumerate(rule.get("resourceRules") or ()):
        yield from _validate_resource_rule(one, (path / "resourceRules")[index])
    for index, one in enumerate(rule.get("nonResourceRules") or ()):
        yield from _validate_path_rule(one, (path / "nonResourceRules")[index])


def _validate_subject(subject: Tree, path: Path) -> Iterator[FieldError]:
    kind = subject.get("kind") or ""
    if kind not in _SUBJECTS:
        yield not_supported(path / "kind", kind, tuple(_SUBJECTS))
        return
    wanted = _SUBJECTS[kind]
    found = subject.get(wanted)
    if found is None:
        yield missing(path / wanted, f"{wanted} is required when subject kind is '{kind}'")
    else:
        yield from validate_required(found, "name", path / wanted)
        if kind == "ServiceAccount":
            yield from _validate_account(found, path / wanted)
    for other, field in sorted(_SUBJECTS.items(), key=lambda item: _FORBIDDEN.index(item[1])):
        if other != kind and subject.get(field) is not None:
            detail = f"{field} is forbidden when subject kind is not '{other}'"
            yield forbidden(path / field, detail)


_FORBIDDEN = ("serviceAccount", "user", "group")


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
        yield from _alone(verbs, "verbs", path)
    elif not set(verbs) <= set(_VERBS):
        yield not_supported(path, list(verbs), _VERBS)


def _alone(values: Sequence[str], what: str, path: Path) -> Iterator[FieldError]:
    if len(values) > 1 and "*" in values:
        detail = f"if '*' is present, must not specify other {what}"
        yield invalid(path, list(values), detail)


def _validate_resource_rule(rule: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_verbs(rule.get("verbs") or (), path / "verbs")
    for name, what, one in (
        ("apiGroups", "api groups", "api group"),
        ("resources", "resources", "resource"),
    ):
        if not rule.get(name):
            yield missing(path / name, f"resource rules must supply at least one {one}")
        yield from _alone(rule.get(name) or (), what, path / name)
    namespaces, namespaces_path = rule.get("namespaces") or (), path / "namespaces"
    if not namespaces and not rule.get("clusterScope"):
        detail = "resource rules that are not cluster scoped must supply at least one namespace"
        yield missing(namespaces_path, detail)
    elif "*" in namespaces:
        yield from _alone(namespaces, "namespaces", namespaces_path)
    else:
        for index, namespace in enumerate(namespaces):
            for message in names.dns1123_label(namespace):
                yield invalid(namespaces_path[index], namespace, f"{_NAMESPACE}{message}")


def _validate_path_rule(rule: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_verbs(rule.get("verbs") or (), path / "verbs")
    urls, ls_path = rule.get("nonResourceURLs") or (), path / "nonResourceURLs"
    if not urls:
        yield missing(ls_path, "nonResourceURLs must contain at least one value")
    elif "*" in urls:
        yield from _alone(urls, "non-resource URLs", ls_path)
    else:
        for index, url in enumerate(urls):
            detail = _wrong_with_url(url)
            if detail:
                yield invalid(ls_path[index], url, detail)


def _wrong_with_url(url: str) -> str:
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
    """What is known of a schema or a level."""
    seen: set[str] = set()
    for index, condition in enumerate(value_at(new, "status", "conditions") or ()):
        type_path = (Path("status") / "conditions")[index] / "type"
        type_ = condition.get("type") or ""
        if type_ in seen:
            yield duplicate(type_path, type_)
        seen.add(type_)
        if not type_:
            yield missing(type_path, "must not be empty")


# Levels.


def validate_priority_level(obj: Tree) -> Iterator[FieldError]:
    """A level, new or changed."""
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
    elif type_ == "Limited":
        if exempt is not None:
            yield forbidden(_SPEC / "exempt", "must be nil if the type is Limited")
        if limited is None:
            yield missing(_SPEC / "limited", "must not be empty when type is Limited")
        else:
            yield from _validate_limited(limited, _SPEC / "limited")
    else:
        yield from validate_enum(type_, ("Exempt", "Limited"), _SPEC / "type")
    yield from _fixed_level(name, spec)


def _fixed_level(name: str, spec: Tree) -> Iterator[FieldError]:
    fixed = MANDATORY_PRIORITY_LEVELS.get(name)
    if fixed is None:
        return
    if name == "exempt":
        if {**spec, "exempt": None} != {**fixed, "exempt": None}:
            detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
            yield invalid(_SPEC, spec, detail)
    elif spec != fixed:
        yield invalid(_SPEC, spec, f"spec of '{name}' must equal the fixed value")


def _validate_shares(level: Tree, path: Path) -> Iterator[FieldError]:
    shares, lent = level.get("nominalConcurrencyShares") or 0, level.get("lendablePercent") or 0
    if shares < 0:
        yield invalid(path / "nominalConcurrencyShares", shares, "must be a non-negative integer")
    if not 0 <= lent <= 100:
        yield invalid(path / "lendablePercent", lent, names.inclusive_range(0, 100))


def _validate_limited(level: Tree, path: Path) -> Iterator[FieldError]:
    yield from _validate_shares(level, path)
    borrowed = level.get("borrowingLimitPercent")
    if borrowed is not None and borrowed < 0:
        detail = "if specified, must be a non-negative integer"
        yield invalid(path / "borrowingLimitPercent", borrowed, detail)
    response, limit_response_path = level.get("limitResponse") or {}, path / "limitResponse"
    queuing = response.get("queuing")
    match response.get("type"):
        case "Reject":
            if queuing is not None:
                detail = "must be nil if limited.limitResponse.type is not Limited"
                yield forbidden(limit_response_path / "queuing", detail)
        case "Queue":
            if queuing is None:
                detail = "must not be empty if limited.limitResponse.type is Limited"
                yield missing(limit_response_path / "queuing", detail)
            else:
                yield from _validate_queuing(queuing, limit_response_path / "queuing")
        case other:
            yield from validate_enum(other, ("Queue", "Reject"), limit_response_path / "type")


def _validate_queuing(queuing: Tree, path: Path) -> Iterator[FieldError]:
    length, queues, hand = (
        queuing.get(name) or 0 for name in ("queueLengthLimit", "queues", "handSize")
    )
    if length <= 0:
        yield invalid(path / "queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield invalid(path / "queues", queues, "must be positive")
    elif queues > _QUEUES_MAX:
        yield invalid(path / "queues", queues, f"must not be greater than {_QUEUES_MAX}")
    hand_size_path = path / "handSize"
    if hand <= 0:
        yield invalid(hand_size_path, hand, "must be positive")
    elif hand > queues:
        yield invalid(hand_size_path, hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        detail = (
            f"required entropy bits of deckSize {queues} and handSize {hand} should not be "
            f"greater than {_HASH_BITS}"
        )
        yield invalid(hand_size_path, hand, detail)
