"""Table columns of the lifecycle group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from datetime import datetime

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Columns,
    age_text,
    human_duration,
    join_first,
    parse_time,
    text,
)
from kapiserver.api.types import Tree


def _target_type(obj: Tree, _: datetime) -> str:
    return UNSET if value_at(obj, "spec", "target", "pod") is None else "Pod"


def _status(obj: Tree, _: datetime) -> str:
    for type_ in ("TargetEvicted", "Failed"):
        for condition in value_at(obj, "status", "conditions") or ():
            if condition.get("type") == type_ and condition.get("status") == "True":
                return f"{type_} ({condition.get('reason') or ''})"
    seen = value_at(obj, "status", "observedGeneration") or 0
    return "Progressing" if seen > 0 else "Pending"


def _responders(eviction: Tree) -> list[Tree]:
    return value_at(eviction, "status", "targetResponders") or []


def _current(eviction: Tree) -> Tree:
    # The active one, or the last that was.
    found = [one for one in _responders(eviction) if one.get("state") != "Inactive"]
    return next((one for one in found if one.get("state") == "Active"), found[-1] if found else {})


def _report(eviction: Tree) -> Tree:
    name = _current(eviction).get("name")
    reports = value_at(eviction, "status", "responders") or ()
    return next((report for report in reports if name and report.get("name") == name), {})


def _responder(eviction: Tree, _: datetime) -> str:
    every, current = _responders(eviction), _current(eviction)
    if not current:
        return UNSET
    done = sum(one.get("state") not in ("Inactive", "Active") for one in every)
    return f"{current.get('name') or ''} ({done}/{len(every)})"


def _responder_status(eviction: Tree, now: datetime) -> str:
    current, report = _current(eviction), _report(eviction)
    if not current:
        return UNSET
    state = current.get("state") or ""
    at = report.get("startTime") if state == "Active" else report.get("completionTime")
    shown = "Started" if state == "Active" and at else state
    return f"{shown} ({age_text(at, now)} ago)" if at else shown


def _finish(eviction: Tree, now: datetime) -> str:
    current, report = _current(eviction), _report(eviction)
    if current.get("state") != "Active":
        return "-"
    expected = parse_time(report.get("expectedCompletionTime"))
    if expected is None:
        return UNKNOWN
    left = (expected - now).total_seconds()
    return f"in {human_duration(left)}" if left >= 0 else f"{human_duration(-left)} ago"


def _requesters(eviction: Tree, _: datetime) -> str:
    requesters = value_at(eviction, "status", "requesters") or ()
    wanting = [one.get("name") or "" for one in requesters if one.get("intent") != "Withdrawn"]
    if not wanting:
        return "<withdrawn>" if requesters else NONE
    return join_first(wanting, 1)


def _heartbeat(eviction: Tree, now: datetime) -> str:
    at = _report(eviction).get("heartbeatTime")
    return f"{age_text(at, now)} ago" if at else UNSET


def _message(eviction: Tree, _: datetime) -> str:
    return (_report(eviction).get("message") or "").strip() or UNSET


_TARGET = Column(
    "Target", text("spec", "target", "pod", "name", empty=UNSET), "Name of the object to evict."
)
_TARGET_TYPE = Column("Target Type", _target_type, "Type of the object to evict.")
_STATUS = Column(
    "Status", _status, "State of the eviction: Pending, Progressing, TargetEvicted or Failed."
)

COLUMNS: dict[str, Columns] = {
    "Eviction": Columns(
        (
            NAME,
            _TARGET,
            _TARGET_TYPE,
            _STATUS,
            Column("Active Responder", _responder, "Responder that is handling the eviction."),
            Column(
                "Responder Status", _responder_status, "State that the active responder reports."
            ),
            Column(
                "Responder Expected Finish", _finish, "When the active responder expects to finish."
            ),
            Column("Requesters", _requesters, "Requesters of the eviction."),
            AGE,
            Column(
                "Responder Heartbeat",
                _heartbeat,
                "Time since the active responder last reported.",
                priority=1,
            ),
            Column(
                "Responder Status Message", _message, "Message of the active responder.", priority=1
            ),
        )
    ),
    "EvictionRequest": Columns(
        (
            NAME,
            _TARGET,
            _TARGET_TYPE,
            _STATUS,
            Column("Requester", text("spec", "requester"), "Name of the requester."),
            Column(
                "Intent", text("spec", "intent"), "Whether the requester still wants the eviction."
            ),
            AGE,
        )
    ),
}
