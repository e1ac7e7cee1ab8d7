"""Stricter rules for events that are written through events.k8s.io, in the form that core keeps.

Mirrors the part of pkg/apis/core/validation/events.go that the version of the request decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kapiserver.api.core.v1 import Event
from kapiserver.api.core.validation.events import validate_event
from kapiserver.api.core.validation.go_structs import as_go_struct
from kapiserver.api.errors import FieldError, Path, invalid, required
from kapiserver.api.metadata_validation import IMMUTABLE
from kapiserver.api.types import Tree

_REPORTER = "reportingController"
_OLD = ("firstTimestamp", "lastTimestamp", "count", "source")
_FIXED = (
    ("involvedObject", "InvolvedObject"),
    ("reason", "Reason"),
    ("message", "Message"),
    ("source", "Source"),
    ("firstTimestamp", "FirstTimestamp"),
    ("lastTimestamp", "LastTimestamp"),
    ("count", "Count"),
    ("reason", "Reason"),  # twice, as in kube-apiserver
    ("type", "Type"),
    ("eventTime", "EventTime"),
    ("action", "Action"),
    ("related", "Related"),
    ("reportingController", "ReportingController"),
    ("reportingInstance", "ReportingInstance"),
)
"""What does not change, and how the inner struct of Go calls it."""


def validate_new_event(obj: Tree) -> Iterator[FieldError]:
    """An event that begins."""
    yield from validate_event(obj, _REPORTER)
    yield from _validate_series(obj)
    if not obj.get("eventTime"):
        yield required(Path("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        yield invalid(Path("type"), "", f"has invalid value: {obj.get('type') or ''}")
    for name in _OLD:
        if obj.get(name):
            yield invalid(Path(name), "", "needs to be unset")


def validate_event_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """An event that came again: nothing but its series changes."""
    yield from validate_event(new, _REPORTER)
    if new.get("series") != old.get("series"):
        yield from _validate_series(new)
    wanted, kept = _shown(new), _shown(old)
    for name, inner in _FIXED:
        if wanted[inner] != kept[inner]:
            yield invalid(Path(name), wanted[inner], IMMUTABLE)


def _shown(obj: Tree) -> dict[str, Any]:
    found = as_go_struct(obj, Event)
    return {**found, "ReportingController": found["ReportingComponent"]}


def _validate_series(obj: Tree) -> Iterator[FieldError]:
    series = obj.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid(Path("series.count"), "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required(Path("series.lastObservedTime"))
