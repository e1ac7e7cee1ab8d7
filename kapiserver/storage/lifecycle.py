"""What every write does to an object around its kind's own strategy: pure functions on trees.

Names, uids and times come in as values. Knows no store, no key and no admission. Mirrors
BeforeCreate, BeforeUpdate and BeforeDelete of k8s.io/apiserver/pkg/registry/rest and the deletion
rules of its generic registry.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

import orjson

from kapiserver.api.accessors import (
    finalizers_of,
    is_terminating,
    metadata_of,
    name_of,
    share_field,
)
from kapiserver.api.declarative_validation import merge_errors
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
from kapiserver.storage.errors import ObjectConflict
from kapiserver.storage.query import DeleteQuery, Preconditions

ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"
_POLICY_FINALIZERS = {"Orphan": ORPHAN, "Foreground": FOREGROUND}

NAME_SUFFIX = 5
NAME_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
NAME_ATTEMPTS = 8


def timestamp(seconds: float) -> str:
    """A moment as the API writes it."""
    return _timestamp(int(seconds))


@functools.lru_cache(maxsize=16)
def _timestamp(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime(_TIME)


_TIME = "%Y-%m-%dT%H:%M:%SZ"


def generate_name(base: str, suffix: str, *, longest: int = 63) -> str:
    """A name for `metadata.generateName`: the base, cut to fit, and a random suffix."""
    return base[: longest - NAME_SUFFIX] + suffix


def ensure_namespace(obj: Tree, namespace: str) -> None:
    """Put the request's namespace into the object. Raises BadObject when it has another."""
    meta = metadata_of(obj)
    own = meta.get("namespace") or ""
    if own == namespace:
        return
    if not namespace:
        del meta["namespace"]
    elif not own:
        meta["namespace"] = namespace
        reorder_keys(meta, ObjectMeta)
    else:
        raise BadObject(
            "the namespace of the provided object does not match the namespace sent on the request"
        )


def fill_system_metadata(obj: Tree, *, uid: str, now: str) -> None:
    """Give a new object what only the server gives. Raises BadObject."""
    meta = metadata_of(obj)
    if meta.get("resourceVersion"):
        raise BadObject("resourceVersion should not be set on objects to be created")
    for name in ("selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"):
        meta.pop(name, None)
    meta["uid"] = uid
    meta["creationTimestamp"] = now
    reorder_keys(meta, ObjectMeta)


def before_create(obj: Tree, resource: Resource, strategy: Strategy) -> tuple[str, ...]:
    """Bring a new object into the form in which it is stored; the warnings for the client.

    Raises InvalidObject.
    """
    strategy.prepare_for_create(obj)
    reorder_keys(metadata_of(obj), ObjectMeta)
    handwritten = (
        *validate_new(
            obj,
            namespaced=resource.namespaced,
            check=strategy.check_name,
            finalizers=strategy.check_finalizers,
        ),
        *strategy.validate(obj),
    )
    _check(obj, resource, merge_errors(handwritten, list(strategy.declarative_rules.errors(obj))))
    warnings = tuple(strategy.warnings(obj, None))
    strategy.canonicalize(obj)
    reorder_keys(metadata_of(obj), ObjectMeta)
    return warnings


def check_resource_version(new: Tree, old: Tree, resource: Resource, strategy: Strategy) -> None:
    """The optimistic lock: an update is of the version it says, or of any where it says none and
    the kind allows that. Raises ObjectConflict, InvalidObject."""
    meta = metadata_of(new)
    current = old["metadata"]["resourceVersion"]
    wanted = _version(meta.get("resourceVersion") or "")
    name = name_of(old)
    if wanted == 0 and strategy.allow_unconditional_update:
        meta["resourceVersion"] = current
        reorder_keys(meta, ObjectMeta)
    elif wanted == 0:
        path = Path("metadata") / "resourceVersion"
        error = invalid(path, orjson.Fragment(b"0x0"), "must be specified for an update")
        raise InvalidObject(group=resource.group, kind=resource.name, name=name, errors=[error])
    elif str(wanted) != current:
        raise ObjectConflict(resource=resource.name, group=resource.group, name=name)


def _version(text: str) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and int(text[:32]) < 1 << 64):
        detail = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        error = invalid(Path("metadata") / "resourceVersion", text, detail)
        raise BadObject(f"invalid resource version: {error}")
    return int(text)


def before_update(new: Tree, old: Tree, resource: Resource, strategy: Strategy) -> tuple[str, ...]:
    """Bring a changed object into the form in which it is stored; the warnings for the client.

    `old` is shared and stays as it is. Raises BadObject, InvalidObject.
    """
    before = old["metadata"]
    ensure_namespace(new, before.get("namespace") or "")
    meta = metadata_of(new)
    share_field(meta, before, "generation")
    strategy.prepare_for_update(new, old)
    meta = metadata_of(new)
    meta.pop("selfLink", None)
    if not meta.get("uid"):
        share_field(meta, before, "uid")
    share_field(meta, before, "creationTimestamp")
    if before.get("deletionTimestamp"):
        share_field(meta, before, "deletionTimestamp")
    if meta.get("deletionGracePeriodSeconds") is None:
        share_field(meta, before, "deletionGracePeriodSeconds")
    reorder_keys(meta, ObjectMeta)
    found = strategy.validate_update(new, old)
    handwritten = (
        *validate_updated(
            new, old, namespaced=resource.namespaced, finalizers=strategy.check_finalizers
        ),
        *(error for error in found if not isinstance(error, RatchetedError)),
    )
    _check(
        new, resource, merge_errors(handwritten, list(strategy.declarative_rules.errors(new, old)))
    )
    tolerated = (str(error) for error in found if isinstance(error, RatchetedError))
    warnings = (*tolerated, *strategy.warnings(new, old))
    strategy.canonicalize(new)
    reorder_keys(metadata_of(new), ObjectMeta)
    _keep_times(new, old)
    return warnings


def _keep_times(new: Tree, old: Tree) -> None:
    """Take over when fields got their owners where nothing else differs: that is no change.

    Mirrors managedfields' IgnoreManagedFieldsTimestampsTransformer.
    """
    entries, before = (one["metadata"].get("managedFields") for one in (new, old))
    if not entries or not before or entries == before or len(entries) != len(before):
        return
    pairs = zip(entries, before, strict=True)
    if any(entry | {"time": None} != one | {"time": None} for entry, one in pairs):
        return
    others = [{**one["metadata"], "managedFields": None} for one in (new, old)]
    if others[0] == others[1] and {**new, "metadata": None} == {**old, "metadata": None}:
        new["metadata"]["managedFields"] = before


def completes_deletion(new: Tree, old: Tree, strategy: Strategy) -> bool:
    """Whether an update removed the last thing that held back a terminating object."""
    return (
        is_terminating(old)
        and not (old["metadata"].get("deletionGracePeriodSeconds") or 0)
        and not strategy.pending_finalizers(new)
    )


def _check(obj: Tree, resource: Resource, errors: Sequence[FieldError]) -> None:
    if errors:
        raise InvalidObject(
            group=resource.group, kind=resource.kind, name=name_of(obj), errors=errors
        )


# Deletion.


def check_update_preconditions(
    old: Tree | None, preconditions: Preconditions, *, resource: Resource, name: str, path: str
) -> None:
    """An update's uid and version against what is stored, worded as the store of kube-apiserver
    words it. Raises ObjectConflict."""
    meta = (old or {}).get("metadata") or {}
    asked = (
        ("UID", preconditions.uid, meta.get("uid") or ""),
        ("ResourceVersion", preconditions.resource_version, meta.get("resourceVersion") or ""),
    )
    for what, wanted, found in asked:
        if wanted is not None and wanted != found:
            detail = (
                f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: {what} in precondition: {wanted}, "
                f"{what} in object meta: {found}"
            )
            raise ObjectConflict(detail, resource=resource.name, group=resource.group, name=name)


def check_delete_preconditions(old: Tree, preconditions: Preconditions, resource: Resource) -> None:
    """A deletion's uid and version against what is stored. Raises ObjectConflict."""
    meta = old["metadata"]
    asked = (
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
    for what, wanted, found, perhaps in asked:
        if wanted is not None and wanted != found:
            detail = (
                f"the {what} in the precondition ({wanted}) does not match the {what} in record "
                f"({found}). {perhaps}"
            )
            raise ObjectConflict(
                detail, resource=resource.kind, group=resource.group, name=name_of(old)
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletionPlan:
    """What a request to delete does to an object.

    marked   the object as it is to be written first; None: it stays as it is
    removes  it goes, after that
    """

    marked: Tree | None
    removes: bool


def plan_deletion(old: Tree, query: DeleteQuery, strategy: Strategy, *, now: float) -> DeletionPlan:
    """Decide what a delete does. `old` is shared; `marked` is a tree of its own in all that
    differs."""
    asked = query.grace_period_seconds
    if asked is not None and asked < 0:
        asked = 1
    new = {**old, "metadata": dict(old["metadata"])}
    grace = _grace(new, asked, strategy, now)
    if grace == "pending":
        return DeletionPlan(marked=None, removes=False)
    changed = _set_policy_finalizers(new, query, strategy)
    held = bool(strategy.pending_finalizers(new))
    if grace == "none":
        if not held and not changed:
            return DeletionPlan(marked=None, removes=True)
        if held:
            _mark(new, now)
            strategy.begin_deletion(new, old)
    left = new["metadata"].get("deletionGracePeriodSeconds") or 0
    reorder_keys(new["metadata"], ObjectMeta)
    return DeletionPlan(marked=new, removes=not held and (grace == "none" or left == 0))


def _grace(
    new: Tree, asked: int | None, strategy: Strategy, now: float
) -> Literal["none", "set", "pending"]:
    """Set the grace period of a kind that has one: anew, or shortened."""
    if not strategy.graceful:
        return "none"
    meta = new["metadata"]
    if not is_terminating(new):
        period = strategy.grace_period(new, asked)
        meta["deletionTimestamp"] = timestamp(now + period)
        meta["deletionGracePeriodSeconds"] = period
        _next_generation(meta)
        return "set"
    current = meta.get("deletionGracePeriodSeconds") or 0
    if current == 0:
        return "none"
    if asked is None or asked >= abs(current):
        return "pending"
    ends = datetime.strptime(meta["deletionTimestamp"], _TIME).replace(tzinfo=UTC)
    meta["deletionTimestamp"] = (ends + timedelta(seconds=asked - current)).strftime(_TIME)
    meta["deletionGracePeriodSeconds"] = asked
    return "set"


def _mark(new: Tree, now: float) -> None:
    """Say that the object waits for its finalizers."""
    meta = new["metadata"]
    if not is_terminating(new):
        _next_generation(meta)
    if not is_terminating(new) or meta["deletionTimestamp"] > timestamp(now):
        meta["deletionTimestamp"] = timestamp(now)
    meta["deletionGracePeriodSeconds"] = 0


def _next_generation(meta: Tree) -> None:
    if meta.get("generation"):
        meta["generation"] += 1


def _set_policy_finalizers(new: Tree, query: DeleteQuery, strategy: Strategy) -> bool:
    """Record the propagation policy as finalizers; whether that changed anything."""
    before = finalizers_of(new)
    policy = query.propagation_policy
    if policy is None:
        if not strategy.orphans_by_default or {ORPHAN, FOREGROUND} & set(before):
            return False  # what the object says itself holds
        policy = "Orphan"
    wanted = _POLICY_FINALIZERS.get(policy)
    after = [one for one in before if one not in (ORPHAN, FOREGROUND)]
    if wanted:
        after.append(wanted)
    if set(after) == set(before):
        return False
    if after:
        new["metadata"]["finalizers"] = after
    else:
        new["metadata"].pop("finalizers", None)
    return True
