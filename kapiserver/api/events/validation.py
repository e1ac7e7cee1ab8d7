"""Stricter rules for events that are written through events.k8s.io, in the form that core keeps.

Mirrors the part of pkg/apis/core/validation/events.go that the version of the request decides.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from kapiserver.api.core.validation.cluster import event
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.metadata import immutable
from kapiserver.api.types import Tree

_OLD = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED = (
    "involvedObject",
    "reason",
    "message",
    "source",
    "firstTimestamp",
    "lastTimestamp",
    "count",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingComponent",
    "reportingInstance",
)
_PATHS = {"reportingComponent": Path("reportingController")}
"""What these clients know by another name."""


def new_event(obj: Tree) -> Iterator[FieldError]:
    """An event that begins."""
    yield from _as_ever(obj)
    yield from _series(obj)
    if not obj.get("eventTime"):
        yield required(Path("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        yield invalid(Path("type"), "", f"has invalid value: {obj.get('type') or ''}")
    for name in _OLD:
        if obj.get(name):
            yield invalid(Path(name), "", "needs to be unset")


def changed_event(new: Tree, old: Tree) -> Iterator[FieldError]:
    """An event that came again: nothing but its series changes."""
    yield from _as_ever(new)
    if new.get("series") != old.get("series"):
        yield from _series(new)
    for name in _FIXED:
        yield from immutable(new.get(name), old.get(name), _PATHS.get(name, Path(name)))


def _as_ever(obj: Tree) -> Iterator[FieldError]:
    for error in event(obj):
        yield dataclasses.replace(error, path=_PATHS.get(error.path.text, error.path))


def _series(obj: Tree) -> Iterator[FieldError]:
    series = obj.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid(Path("series.count"), "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required(Path("series.lastObservedTime"))
