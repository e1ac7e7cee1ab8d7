"""Builds Status objects, the bodies of error responses, in meta/v1's key order."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.api.types import Tree

SUCCESS = "Success"
FAILURE = "Failure"
STATUS_FIELDS = (
    "kind", "apiVersion", "metadata", "status", "message", "reason", "details", "code",
)  # fmt: skip
"""The fields of a Status in their order."""


def status(
    *,
    code: int,
    message: str,
    reason: str = "",
    details: Tree | None = None,
    outcome: str = FAILURE,
) -> Tree:
    """Return a Status; `details` is the result of `details()`, or None to leave the field out."""
    tree: Tree = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": outcome}
    if message:
        tree["message"] = message
    if reason:
        tree["reason"] = reason
    if details is not None:
        tree["details"] = details
    tree["code"] = code
    return tree


def details(
    *,
    name: str = "",
    group: str = "",
    kind: str = "",
    uid: str = "",
    causes: Sequence[Tree] = (),
    retry_after: int = 0,
) -> Tree:
    """Return StatusDetails without its empty fields."""
    parts: Tree = {"name": name, "group": group, "kind": kind, "uid": uid}
    tree: Tree = {key: value for key, value in parts.items() if value}
    if causes:
        tree["causes"] = list(causes)
    if retry_after:
        tree["retryAfterSeconds"] = retry_after
    return tree


def cause(*, reason: str, message: str, field: str = "") -> Tree:
    """Return a StatusCause."""
    tree: Tree = {"reason": reason, "message": message}
    return tree | {"field": field} if field else tree
