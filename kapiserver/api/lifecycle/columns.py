"""Table columns of the lifecycle group.

Mirrors pkg/printers/internalversion of Kubernetes.
"""

from __future__ import annotations

from kapiserver.api.accessors import value_at
from kapiserver.api.columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Age,
    Column,
    Columns,
    age_of,
    join_first,
    parse_time,
    text,
)
from kapiserver.api.types import Tree


def _target_type(obj: Tree) -> str:
    return UNSET if value_at(obj, "spec", "target", "pod") is None else "Pod"


def _status(obj: Tree) -> str:
    for type_ in ("TargetEvicted", "Failed"):
        for condition in value_at(obj, "status", "conditions") or ():
            if condition.get("type") == type_ and condition.get("status") == "True":
                return f"{type_} ({condition.get('reason') or ''})"
    observed = value_at(obj, "status", "observedGeneration") or 0
    return "Progressing" if observed > 0 else "Pending"


def _responders(eviction: Tree) -> list[Tree]:
    return value_at(eviction, "status", "targetResponders") or []


def _current_responder(eviction: Tree) -> Tree:
    # The active responder, or the last one that was active.
    started = [
        responder for responder in _responders(eviction) if responder.get("state") != "Inactive"
    ]
    return next(
        (responder for responder in started if responder.get("state") == "Active"),
        started[-1] if started else {},
    )


def _current_report(eviction: Tree) -> Tree:
    name = _current_responder(eviction).get("name")
    reports = value_at(eviction, "status", "responders") or ()
    return next((report for report in reports if name and report.get("name") == name), {})


def _responder(eviction: Tree) -> str:
    responders, current_responder = _responders(eviction), _current_responder(eviction)
    if not current_responder:
        return UNSET
    finished = sum(responder.get("state") not in ("Inactive", "Active") for responder in responders)
    return f"{current_responder.get('name') or ''} ({finished}/{len(responders)})"


def _responder_status(eviction: Tree) -> str | Age:
    responder, report = _current_responder(eviction), _current_report(eviction)
    if not responder:
        return UNSET
    state = responder.get("state") or ""
    report_time = report.get("startTime") if state == "Active" else report.get("completionTime")
    state_text = "Started" if state == "Active" and report_time else state
    if not report_time:
        return state_text
    return age_of(report_time, before=f"{state_text} (", after=" ago)")


def _expected_finish(eviction: Tree) -> str | Age:
    responder, report = _current_responder(eviction), _current_report(eviction)
    if responder.get("state") != "Active":
        return "-"
    finish_time = parse_time(report.get("expectedCompletionTime"))
    if finish_time is None:
        return UNKNOWN
    return Age(finish_time.timestamp(), after=" ago", until="in ")


def _requesters(eviction: Tree) -> str:
    requesters = value_at(eviction, "status", "requesters") or ()
    requester_names = [
        requester.get("name") or ""
        for requester in requesters
        if requester.get("intent") != "Withdrawn"
    ]
    if not requester_names:
        return "<withdrawn>" if requesters else NONE
    return join_first(requester_names, 1)


def _heartbeat(eviction: Tree) -> str | Age:
    heartbeat = _current_report(eviction).get("heartbeatTime")
    return age_of(heartbeat, after=" ago") if heartbeat else UNSET


def _message(eviction: Tree) -> str:
    return (_current_report(eviction).get("message") or "").strip() or UNSET


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
                "Responder Expected Finish",
                _expected_finish,
                "When the active responder expects to finish.",
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
