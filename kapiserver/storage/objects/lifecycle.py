"""The part of a write that all kinds share, around the kind's strategy: pure functions on trees.

Names, uids and times are parameters. Knows no store, no key and no admission. Mirrors
BeforeCreate, BeforeUpdate and BeforeDelete of k8s.io/apiserver/pkg/registry/rest and the deletion
rules of its generic registry.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from msgspec import Struct

from kapiserver.api.accessors import (
    finalizers_of,
    is_terminating,
    metadata_of,
    name_of,
    next_generation,
    share_field,
)
from kapiserver.api.declarative_validation import ABSENT, NO_RULES, merge_errors
from kapiserver.api.errors import (
    BadObject,
    FieldError,
    InvalidObject,
    Path,
    RatchetedError,
    invalid,
)
from kapiserver.api.group import Resource
from kapiserver.api.key_order import reorder_keys
from kapiserver.api.meta.v1 import ObjectMeta
from kapiserver.api.metadata_validation import validate_new, validate_updated
from kapiserver.api.strategy import Strategy
from kapiserver.api.types import Tree
from kapiserver.storage.cache.query import DeleteQuery, Preconditions
from kapiserver.storage.errors import ObjectConflict, ResourceVersionSet

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICY_FINALIZERS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}

NAME_SUFFIX = 5
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
NAME_ATTEMPTS = 8
_MAX_DIGITS = 20
"""Digits of the greatest revision, 2**64 - 1."""


def timestamp(seconds: float) -> str:
    """Return a time in the API's format (metav1.Time)."""
    return _timestamp(int(seconds))


@functools.lru_cache(maxsize=16)
def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_TIME)


_TIME = "%Y-%m-%dT%H:%M:%SZ"


def generate_name(base: str, suffix: str, *, max_length: int = 63) -> str:
    """Return a name for `metadata.generateName`: the truncated base and a random suffix."""
    return base[: max_length - NAME_SUFFIX] + suffix


def ensure_namespace(obj: Tree, namespace: str) -> None:
    """Set the request's namespace in the object. Raises BadObject if it has another."""
    meta = metadata_of(obj)
    object_namespace = meta.get("namespace") or ""
    if object_namespace == namespace:
        return
    if not namespace:
        del meta["namespace"]
    elif not object_namespace:
        meta["namespace"] = namespace
        reorder_keys(meta, ObjectMeta)
    else:
        raise BadObject(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def clear_system_metadata(obj: Tree) -> None:
    """Remove the fields of a new object's metadata that the server sets."""
    meta = metadata_of(obj)
    if not _SYSTEM_METADATA.isdisjoint(meta):
        for name in _SYSTEM_METADATA.intersection(meta):
            del meta[name]


_SYSTEM_METADATA = frozenset(
    ("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "selfLink", "uid")
)


def fill_system_metadata(obj: Tree, *, uid: str, now: str) -> None:
    """Set uid and creationTimestamp of a new object, and clear system fields. `before_create` sorts
    them in."""
    clear_system_metadata(obj)
    meta = metadata_of(obj)
    meta["uid"] = uid
    meta["creationTimestamp"] = now


def before_create(obj: Tree, resource: Resource, strategy: Strategy) -> tuple[str, ...]:
    """Prepare and validate a new object by its strategy, and return warnings for the client.

    Raises InvalidObject.
    """
    strategy.prepare_for_create(obj)
    metadata_errors = validate_new(
        obj,
        namespaced=resource.namespaced,
        check=strategy.check_name,
        finalizers=strategy.check_finalizers,
    )
    errors: Sequence[FieldError] = strategy.validate(obj)
    if metadata_errors:
        errors = strategy.with_metadata_errors(metadata_errors, errors)
    _check(obj, resource, _with_declared_errors(strategy, errors, obj))
    warnings = tuple(strategy.warnings(obj, None))
    strategy.canonicalize(obj)
    reorder_keys(metadata_of(obj), ObjectMeta)
    return warnings


def clear_resource_version(obj: Tree) -> None:
    """Clear the resourceVersion of a new object. Raises ResourceVersionSet for a positive number;
    like kube-apiserver, accepts "0" and texts that are not numbers."""
    text = metadata_of(obj).pop("resourceVersion", None) or ""
    if is_version(text) and text.strip("0"):
        raise ResourceVersionSet


def check_resource_version(new: Tree, old: Tree, resource: Resource, strategy: Strategy) -> None:
    """Check the resourceVersion of an update (optimistic locking). An update without one is
    unconditional if the kind allows it, and gets that of the object; `before_update` sorts it in.
    Raises ObjectConflict, InvalidObject."""
    meta = metadata_of(new)
    current = old["metadata"]["resourceVersion"]
    requested = _version(meta.get("resourceVersion") or "")
    name = name_of(old)
    if requested == 0 and strategy.allow_unconditional_update:
        meta["resourceVersion"] = current
    elif requested == 0:
        path = Path("metadata") / "resourceVersion"
        error = invalid(path, 0, "must be specified for an update")
        raise InvalidObject(group=resource.group, kind=resource.name, name=name, errors=[error])
    elif str(requested) != current:
        raise ObjectConflict(resource=resource.name, group=resource.group, name=name)


def _version(text: str) -> int:
    if not text:
        return 0
    if not is_version(text):
        raise BadObject(f'strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text.lstrip("0") or "0")


def is_version(text: str) -> bool:
    """Report whether Go's strconv.ParseUint accepts a text."""
    if not (text.isascii() and text.isdigit()):
        return False
    digits = text.lstrip("0")
    return len(digits) <= _MAX_DIGITS and int(digits or "0") < 1 << 64


def before_update(new: Tree, old: Tree, resource: Resource, strategy: Strategy) -> tuple[str, ...]:
    """Prepare and validate an update by the strategy, and return warnings for the client.

    `old` is shared and not changed. Raises BadObject, InvalidObject.
    """
    old_meta = old["metadata"]
    ensure_namespace(new, old_meta.get("namespace") or "")
    meta = metadata_of(new)
    share_field(meta, old_meta, "generation")
    strategy.prepare_for_update(new, old)
    meta = metadata_of(new)  # the strategy may have replaced it
    meta.pop("selfLink", None)
    if not meta.get("uid"):
        share_field(meta, old_meta, "uid")
    share_field(meta, old_meta, "creationTimestamp")
    if old_meta.get("deletionTimestamp"):
        share_field(meta, old_meta, "deletionTimestamp")
    if meta.get("deletionGracePeriodSeconds") is None:
        share_field(meta, old_meta, "deletionGracePeriodSeconds")
    update_errors = strategy.validate_update(new, old)
    metadata_errors = validate_updated(
        new, old, namespaced=resource.namespaced, finalizers=strategy.check_finalizers
    )
    errors: Sequence[FieldError] = ()
    tolerated: Sequence[str] = ()
    if update_errors:
        errors = [error for error in update_errors if not isinstance(error, RatchetedError)]
        tolerated = [str(error) for error in update_errors if isinstance(error, RatchetedError)]
    if metadata_errors:
        errors = strategy.with_metadata_errors(metadata_errors, errors)
    _check(new, resource, _with_declared_errors(strategy, errors, new, old))
    warnings = (*tolerated, *strategy.warnings(new, old))
    strategy.canonicalize(new)
    reorder_keys(new["metadata"], ObjectMeta)
    _keep_times(new, old)
    return warnings


def _keep_times(new: Tree, old: Tree) -> None:
    """Keep the old times in managedFields if nothing else changed, so that the update is a no-op.

    Mirrors managedfields' IgnoreManagedFieldsTimestampsTransformer.
    """
    entries = new["metadata"].get("managedFields")
    old_entries = old["metadata"].get("managedFields")
    if not entries or not old_entries or entries == old_entries or len(entries) != len(old_entries):
        return
    if {**new, "metadata": None} != {**old, "metadata": None}:  # first, as most updates end here
        return
    pairs = zip(entries, old_entries, strict=True)
    if any(entry | {"time": None} != old_entry | {"time": None} for entry, old_entry in pairs):
        return
    other_metadata = [{**tree["metadata"], "managedFields": None} for tree in (new, old)]
    if other_metadata[0] == other_metadata[1]:
        new["metadata"]["managedFields"] = old_entries


def completes_deletion(new: Tree, old: Tree, strategy: Strategy) -> bool:
    """Whether an update removed the last finalizer of a terminating object."""
    return (
        is_terminating(old)
        and not (old["metadata"].get("deletionGracePeriodSeconds") or 0)
        and not strategy.pending_finalizers(new)
    )


def _with_declared_errors(
    strategy: Strategy, errors: Sequence[FieldError], new: Tree, old: Any = ABSENT
) -> Sequence[FieldError]:
    rules = strategy.declarative_rules
    if rules is NO_RULES:  # as for most kinds
        return errors
    return merge_errors(errors, list(rules.errors(new, old)))


def _check(obj: Tree, resource: Resource, errors: Sequence[FieldError]) -> None:
    if errors:
        raise InvalidObject(
            group=resource.group, kind=resource.kind, name=name_of(obj), errors=errors
        )


# Deletion.


def check_update_preconditions(
    old: Tree | None, preconditions: Preconditions, resource: Resource, *, name: str, path: str
) -> None:
    """Check the preconditions of an update, with the messages of kube-apiserver's storage. Raises
    ObjectConflict."""
    meta = (old or {}).get("metadata") or {}
    checks = (
        ("UID", preconditions.uid, meta.get("uid") or ""),
        ("ResourceVersion", preconditions.resource_version, meta.get("resourceVersion") or ""),
    )
    for field, requested, actual in checks:
        if requested is not None and requested != actual:
            key = path[path.index(f"/{resource.prefix}/") :]  # without the root
            detail = (
                f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: {field} in precondition: {requested}, "
                f"{field} in object meta: {actual}"
            )
            raise ObjectConflict(detail, resource=resource.name, group=resource.group, name=name)


def check_delete_preconditions(old: Tree, preconditions: Preconditions, resource: Resource) -> None:
    """Check the preconditions of a delete. Raises ObjectConflict."""
    meta = old["metadata"]
    checks = (
        (
            "UID",
            preconditions.uid,
            meta.get("uid") or "",
            "The object might have been deleted and then recreated",
        ),
        (
            "ResourceVersion",
            preconditions.resource_version,
            meta["resourceVersion"],
            "The object might have been modified",
        ),
    )
    for field, requested, actual, hint in checks:
        if requested is not None and requested != actual:
            detail = (
                f"the {field} in the precondition ({requested}) does not match the {field} in "
                f"record ({actual}). {hint}"
            )
            raise ObjectConflict(
                detail, resource=resource.kind, group=resource.group, name=name_of(old)
            )


class DeletionPlan(Struct, frozen=True, kw_only=True):
    """The effect of a delete request on an object.

    update  the object to write first; None if it does not change
    remove  whether to delete the key after that
    """

    update: Tree | None
    remove: bool


def plan_deletion(old: Tree, query: DeleteQuery, strategy: Strategy, *, now: float) -> DeletionPlan:
    """Return the effect of a delete request. `old` is shared and not changed."""
    requested_period = query.grace_period_seconds
    if requested_period is not None and requested_period < 0:
        requested_period = 1
    new = {**old, "metadata": dict(old["metadata"])}
    grace = _grace(new, requested_period, strategy, now)
    if grace == "pending":
        return DeletionPlan(update=None, remove=False)
    changed = _set_policy_finalizers(new, query, strategy)
    has_finalizers = bool(strategy.pending_finalizers(new))
    if grace == "none":
        if not has_finalizers and not changed:
            return DeletionPlan(update=None, remove=True)
        if has_finalizers:
            _mark_terminating(new, now)
            strategy.begin_deletion(new, old)
    remaining_period = new["metadata"].get("deletionGracePeriodSeconds") or 0
    reorder_keys(new["metadata"], ObjectMeta)
    return DeletionPlan(
        update=new, remove=not has_finalizers and (grace == "none" or remaining_period == 0)
    )


def _grace(
    new: Tree, requested_period: int | None, strategy: Strategy, now: float
) -> Literal["none", "set", "pending"]:
    """Set or shorten the grace period of a gracefully deleted kind."""
    if not strategy.graceful:
        return "none"
    meta = new["metadata"]
    if not is_terminating(new):
        period = strategy.grace_period(new, requested_period)
        meta["deletionTimestamp"] = timestamp(now + period)
        meta["deletionGracePeriodSeconds"] = period
        _next_generation(meta)
        return "set"
    current = meta.get("deletionGracePeriodSeconds") or 0
    if current == 0:
        return "none"
    if requested_period is None or requested_period >= abs(current):
        return "pending"
    ends = datetime.strptime(meta["deletionTimestamp"], _TIME).replace(tzinfo=UTC)
    meta["deletionTimestamp"] = (ends + timedelta(seconds=requested_period - current)).strftime(
        _TIME
    )
    meta["deletionGracePeriodSeconds"] = requested_period
    return "set"


def _mark_terminating(new: Tree, now: float) -> None:
    """Mark the object as terminating until its finalizers are removed."""
    meta = new["metadata"]
    if not is_terminating(new):
        _next_generation(meta)
    if not is_terminating(new) or meta["deletionTimestamp"] > timestamp(now):
        meta["deletionTimestamp"] = timestamp(now)
    meta["deletionGracePeriodSeconds"] = 0


def _next_generation(meta: Tree) -> None:
    if meta.get("generation"):
        meta["generation"] = next_generation(meta["generation"])


def _set_policy_finalizers(new: Tree, query: DeleteQuery, strategy: Strategy) -> bool:
    """Set the finalizers of the propagation policy, and return whether they changed."""
    before = finalizers_of(new)
    policy = query.propagation_policy
    if policy is None:
        if not strategy.orphans_by_default or {ORPHAN, FOREGROUND} & set(before):
            return False  # the finalizers of the object take precedence
        policy = "Orphan"
    requested = _POLICY_FINALIZERS.get(policy)
    after = [name for name in before if name not in (ORPHAN, FOREGROUND)]
    if requested:
        after.append(requested)
    if set(after) == set(before):
        return False
    if after:
        new["metadata"]["finalizers"] = after
    else:
        new["metadata"].pop("finalizers", None)
    return True
