"""Decode and validate query parameters as option objects of meta/v1.

Knows which options exclude each other, not their effects. Mirrors ValidateListOptions,
ValidateDeleteOptions and their siblings in k8s.io/apimachinery.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias, cast

from kapiserver.api import selectors
from kapiserver.api.errors import (
    FieldError,
    InvalidObject,
    Path,
    forbidden,
    invalid,
    not_supported,
    not_supported_in_order,
    required,
    too_long,
)
from kapiserver.api.group import Resource
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree
from kapiserver.apiserver.context import Server
from kapiserver.apiserver.corrupt_objects import GATE as UNSAFE_GATE
from kapiserver.apiserver.errors import BadRequest
from kapiserver.apiserver.feature_gates import FeatureGates
from kapiserver.apiserver.request import Query, Request
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.target import Target
from kapiserver.codecs.parameter_codec import ParameterCodec
from kapiserver.storage.cache.query import DeleteQuery, ListQuery, Preconditions, WatchQuery

Rules: TypeAlias = Callable[[Tree], list[FieldError]]

_MATCH = Path("resourceVersionMatch")
_INITIAL = Path("sendInitialEvents")
_EXACT, _NOT_OLDER = "Exact", "NotOlderThan"
_MANAGER_LENGTH = 128
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
IGNORE_READ_ERROR = "ignoreStoreReadErrorWithClusterBreakingPotential"
"""The option that deletes an object that cannot be read (`operations/unsafe_delete.py`)."""
_NOT_UNSAFE = ("propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions")
"""The options of a deletion that need the object."""
_POLICIES = ("Foreground", "Background", "Orphan")


def read_options(
    server: Server, request: Request, kind: str, *, rules: Rules | None = None
) -> Tree:
    """Return the query of a request as options of a kind. `rules` replaces the rules of the kind.
    Raises BadRequest, InvalidObject."""
    return parse_options(server, request.query, kind, rules=rules)


def parse_options(server: Server, query: Query, kind: str, *, rules: Rules | None = None) -> Tree:
    """Return query parameters as options of a kind. Raises BadRequest, InvalidObject."""
    if not query and rules is None:
        return {}
    options = ParameterCodec(server.scheme).decode(query, kind)
    if kind == "DeleteOptions":
        return check_delete_options(server, options)
    check_options(options, kind, rules=rules)
    return _drop_disabled_options(server.config.features.feature_gates, options)


def _drop_disabled_options(gates: FeatureGates, options: Tree) -> Tree:
    """Remove the options of disabled feature gates. Raises InvalidObject for
    `sendInitialEvents`."""
    if "APIListChunking" not in gates:
        options.pop("limit", None)
        options.pop("continue", None)
    if "WatchList" not in gates and options.get("sendInitialEvents") is not None:
        detail = (
            "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        )
        errors = [forbidden(_INITIAL, detail)]
        raise InvalidObject(group="meta.k8s.io", kind="ListOptions", name="", errors=errors)
    return options


def check_options(options: Tree, kind: str, *, rules: Rules | None = None) -> None:
    """Raise InvalidObject unless the options are valid together."""
    errors = (rules or _RULES[kind])(options)
    if errors:
        raise InvalidObject(group="meta.k8s.io", kind=kind, name="", errors=errors)


def check_delete_options(server: Server, options: Tree) -> Tree:
    """Return DeleteOptions without the one of a disabled feature gate. Raises InvalidObject."""
    if UNSAFE_GATE not in server.config.features.feature_gates:
        options = {name: value for name, value in options.items() if name != IGNORE_READ_ERROR}
    check_options(options, "DeleteOptions")
    return options


def is_dry_run(options: Tree) -> bool:
    """Return whether the options ask for a dry run, which stores nothing."""
    return bool(options.get("dryRun"))


def selection_of(info: RequestInfo, options: Tree, resource: Resource) -> Selection:
    """Return the selectors of a list or watch; a `/watch/` path may select one object by name.
    Raises BadObject, BadRequest."""
    field_text = options.get("fieldSelector") or ""
    selection = selectors.parse(options.get("labelSelector") or "", field_text, resource)
    name = info.name
    if not name or selection.name == name:
        return selection
    if field_text:
        raise BadRequest("fieldSelector metadata.name doesn't match requested name")
    return selectors.parse(options.get("labelSelector") or "", f"metadata.name={name}", resource)


def selector_cost(options: Tree) -> int:
    """Return the cost of parsing the selectors: the number of their terms and values."""
    selectors_text = (options.get("labelSelector") or "", options.get("fieldSelector") or "")
    return sum(text.count(",") for text in selectors_text)


def list_query(info: RequestInfo, target: Target, options: Tree) -> ListQuery:
    """Return ListOptions as a query of the store. Raises BadObject."""
    return ListQuery(
        namespace=target.key.namespace,
        selection=selection_of(info, options, target.resource),
        resource_version=options.get("resourceVersion") or "",
        match=options.get("resourceVersionMatch") or "",
        limit=options.get("limit") or 0,
        continue_token=options.get("continue") or "",
    )


def watch_query(info: RequestInfo, target: Target, options: Tree) -> WatchQuery:
    """Return the ListOptions of a watch as a query of the store. Raises BadObject."""
    return WatchQuery(
        namespace=target.key.namespace,
        selection=selection_of(info, options, target.resource),
        resource_version=options.get("resourceVersion") or "",
        match=options.get("resourceVersionMatch") or "",
        continue_token=options.get("continue") or "",
        initial_events=options.get("sendInitialEvents"),
        bookmarks=bool(options.get("allowWatchBookmarks")),
    )


def delete_query(options: Tree) -> DeleteQuery:
    """Return DeleteOptions as a query of the store."""
    policy = options.get("propagationPolicy")
    if options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    preconditions = options.get("preconditions") or {}
    return DeleteQuery(
        grace_period_seconds=options.get("gracePeriodSeconds"),
        propagation_policy=cast("Literal['Orphan', 'Background', 'Foreground'] | None", policy),
        preconditions=Preconditions(
            uid=preconditions.get("uid"), resource_version=preconditions.get("resourceVersion")
        ),
        dry_run=is_dry_run(options),
    )


def _write_rules(options: Tree) -> list[FieldError]:
    manager = options.get("fieldManager") or ""
    errors = []
    if len(manager) > _MANAGER_LENGTH:
        errors.append(too_long(Path("fieldManager"), _MANAGER_LENGTH))
    position = 0
    for character in manager:
        if not character.isprintable():
            detail = f"invalid character U+{ord(character):04X} (at position {position})"
            errors.append(invalid(Path("fieldManager"), manager, detail))
        position += len(character.encode("utf-8", "replace"))
    errors.extend(_dry_run_rules(options))
    validation = options.get("fieldValidation") or ""
    if validation not in _VALIDATIONS:
        errors.append(not_supported(Path("fieldValidation"), validation, _VALIDATIONS))
    return errors


def _dry_run_rules(options: Tree) -> list[FieldError]:
    dry_run = options.get("dryRun") or []
    if set(dry_run) <= {"All"}:
        return []
    return [not_supported(Path("dryRun"), dry_run, ("All",))]


def _patch_rules(options: Tree) -> list[FieldError]:
    errors = []
    if options.get("force") is not None:
        errors.append(forbidden(Path("force"), "may not be specified for non-apply patch"))
    return [*errors, *_write_rules(options)]


def apply_rules(options: Tree) -> list[FieldError]:
    """Return the errors in PatchOptions of a server-side apply."""
    errors = []
    if not options.get("fieldManager"):
        errors.append(required(Path("fieldManager"), "is required for apply patch"))
    return [*errors, *_write_rules(options)]


def _delete_rules(options: Tree) -> list[FieldError]:
    policy, path = options.get("propagationPolicy"), Path("propagationPolicy")
    errors = []
    if policy is not None and options.get("orphanDependents") is not None:
        errors.append(
            invalid(path, policy, "orphanDependents and deletionPropagation cannot be both set")
        )
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported_in_order(path, policy, (*_POLICIES, "nil")))
    errors.extend(_dry_run_rules(options))
    if options.get(IGNORE_READ_ERROR):
        errors.extend(
            invalid(Path(IGNORE_READ_ERROR), True, f"cannot be set together with .{name}")
            for name in _NOT_UNSAFE
            if options.get(name) is not None
        )
    return errors


def _list_rules(options: Tree) -> list[FieldError]:
    match = options.get("resourceVersionMatch") or ""
    if options.get("watch"):
        return _watch_rules(options, match)
    errors = []
    if match:
        version = options.get("resourceVersion") or ""
        if not version:
            errors.append(
                forbidden(
                    _MATCH,
                    "resourceVersionMatch is forbidden unless resourceVersion is provided",
                )
            )
        errors.extend(_continue_rules(options))
        if match not in (_EXACT, _NOT_OLDER):
            errors.append(not_supported_in_order(_MATCH, match, (_EXACT, _NOT_OLDER, "")))
        if match == _EXACT and version == "0":
            errors.append(
                forbidden(
                    _MATCH, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
                )
            )
    if options.get("sendInitialEvents") is not None:
        errors.append(forbidden(_INITIAL, "sendInitialEvents is forbidden for list"))
    return errors


def _watch_rules(options: Tree, match: str) -> list[FieldError]:
    errors = []
    initial = options.get("sendInitialEvents") is not None
    if not initial and not match and (options.get("resourceVersion") or "0") == "0":
        errors.extend(_continue_rules(options))  # kube-apiserver sets a match by default
    if initial and match != _NOT_OLDER:
        errors.append(
            forbidden(
                _MATCH, f"sendInitialEvents requires setting resourceVersionMatch to {_NOT_OLDER}"
            )
        )
    if match:
        if not initial:
            errors.append(
                forbidden(
                    _MATCH,
                    "resourceVersionMatch is forbidden for watch unless sendInitialEvents is "
                    "provided",
                )
            )
        if match != _NOT_OLDER:
            errors.append(not_supported(_MATCH, match, (_NOT_OLDER,)))
        errors.extend(_continue_rules(options))
    return errors


def _continue_rules(options: Tree) -> list[FieldError]:
    if not options.get("continue"):
        return []
    detail = "resourceVersionMatch is forbidden when continue is provided"
    return [forbidden(_MATCH, detail)]


def _no_rules(_options: Tree) -> list[FieldError]:
    return []


_RULES: dict[str, Rules] = {
    "CreateOptions": _write_rules,
    "DeleteOptions": _delete_rules,
    "GetOptions": _no_rules,
    "ListOptions": _list_rules,
    "PatchOptions": _patch_rules,
    "TableOptions": _no_rules,
    "UpdateOptions": _write_rules,
}
