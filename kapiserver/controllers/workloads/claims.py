"""Claims: which objects a controller's object owns, adopts and releases.

An object owns those that name it as their controller and match its selector. It adopts matching
objects without a controller, and releases its own that no longer match. Mirrors
pkg/controller/controller_ref_manager.go.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from kapiserver.api.accessors import (
    controller_of,
    is_terminating,
    labels_of,
    name_of,
    uid_of,
    value_at,
)
from kapiserver.api.errors import BadObject
from kapiserver.api.label_selectors import selection_of
from kapiserver.api.selectors import Selection
from kapiserver.api.types import Tree


class Claims(Struct, frozen=True):
    """The result of `claims_of`."""

    owned: list[Tree]
    adopt: list[Tree]
    release: list[Tree]


def controller_uid(obj: Tree) -> str:
    """Return the uid of the object's controller, or ""."""
    return (controller_of(obj) or {}).get("uid") or ""


def controller_reference(owner: Tree, api_version: str, kind: str) -> Tree:
    """Return the owner reference that makes `owner` the controller of an object."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def selector_of(owner: Tree) -> Selection | None:
    """Return `spec.selector`, of a ReplicationController a plain map of labels; None if it is
    missing, invalid, or selects everything."""
    selector = value_at(owner, "spec", "selector")
    if selector and owner.get("kind") == "ReplicationController":
        selector = {"matchLabels": selector}
    try:
        return selection_of(selector) if selector else None
    except BadObject:
        return None


def claims_of(owner: Tree, selection: Selection, candidates: Iterable[Tree]) -> Claims:
    """Return which candidates, objects in the owner's namespace, `owner` owns, should adopt and
    should release. An owner that is being deleted adopts and releases nothing."""
    claims = Claims([], [], [])
    is_deleted = is_terminating(owner)
    for candidate in candidates:
        uid = controller_uid(candidate)
        matches = selection.matches(labels_of(candidate), {})
        if uid == uid_of(owner):
            if matches:
                claims.owned.append(candidate)
            elif not is_deleted:
                claims.release.append(candidate)
        elif not uid and matches and not is_deleted and not is_terminating(candidate):
            claims.adopt.append(candidate)
    return claims
