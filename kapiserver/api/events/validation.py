"""Validation of events that are written through events.k8s.io, stricter than that of core events.

Mirrors the part of pkg/apis/core/validation/events.go that depends on the version of the request.
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
_DEPRECATED_FIELDS = ("firstTimestamp", "lastTimestamp", "count", "source")
_IMMUTABLE_FIELDS = (
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
"""The immutable fields, and their names in the internal Go struct."""


def validate_new_event(obj: Tree) -> Iterator[FieldError]:
    """Validate a new event."""
    yield from validate_event(obj, _REPORTER)
    yield from _validate_series(obj)
    if not obj.get("eventTime"):
        yield required(Path("eventTime"))
    if obj.get("type") not in ("Normal", "Warning"):
        yield invalid(Path("type"), "", f"has invalid value: {obj.get('type') or ''}")
    for name in _DEPRECATED_FIELDS:
        if obj.get(name):
            yield invalid(Path(name), "", "needs to be unset")


def validate_event_update(new: Tree, old: Tree) -> Iterator[FieldError]:
    """Validate an updated event. Only its series may change."""
    yield from validate_event(new, _REPORTER)
    if new.get("series") != old.get("series"):
        yield from _validate_series(new)
    new_event, old_event = _go_event(new), _go_event(old)
    for name, go_name in _IMMUTABLE_FIELDS:
        if new_event[go_name] != old_event[go_name]:
            yield invalid(Path(name), new_event[go_name], IMMUTABLE)


def _go_event(obj: Tree) -> dict[str, Any]:
    struct = as_go_struct(obj, Event)
    return {**struct, "ReportingController": struct["ReportingComponent"]}


def _validate_series(obj: Tree) -> Iterator[FieldError]:
    series = obj.get("series")
    if series is None:
        return
    if (series.get("count") or 0) < 2:
        yield invalid(Path("series.count"), "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required(Path("series.lastObservedTime"))
