"""The events before a fault, each with its cause. Pure.

The history does not say why a program wrote something. The most likely cause of a write is the last
event that the program saw of the same object, of its owner, or of an object with the same name;
without one, the last event that it saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from kapiserver.exploring.history import LEASES, OPERATOR, SERVER, Commit, History, Mark, Request

SHOWN = 10
"""Events that a report shows."""
BEFORE_INJECTION = 3
"""How many of these events are from before the injection, if the fault shows at the end."""


class Event(Struct, frozen=True):
    """Something that happened, and its most likely cause, or ""."""

    position: int
    text: str
    cause: str = ""

    def __str__(self) -> str:
        return f"{self.text} (after {self.cause})" if self.cause else self.text


def events_before(history: History, position: int | None) -> list[Event]:
    """Return the last events before a position. If it is None, the fault shows at the end: return
    events around the first thing that the plan did."""
    events = sorted(_events(history), key=lambda event: event.position)
    if position is not None:
        return [event for event in events if event.position <= position][-SHOWN:]
    injected = [mark.position for mark in history.marks if mark.step is None]
    if not injected:
        return events[-SHOWN:]
    index = next(i for i, event in enumerate(events) if event.position >= injected[0])
    return events[max(0, index - BEFORE_INJECTION) :][:SHOWN]


def _events(history: History) -> Iterator[Event]:
    for mark in history.marks:
        yield Event(mark.position, _mark_text(mark))
    for item in history.exits:
        yield Event(item.position, f"the operator exits with status {item.status}")
    commits = [commit for commit in history.commits if commit.object.resource != LEASES]
    for request in history.operator_writes:
        position = request.commits[0] if request.commits else request.position
        yield Event(position, _request_text(request), _cause(history, commits, request))
    for commit in commits:
        if commit.request is None:
            yield Event(
                commit.position, f"{commit.actor}: {commit}", _server_cause(commits, commit)
            )


def _mark_text(mark: Mark) -> str:
    return f"step {mark.step + 1}: {mark.text}" if mark.step is not None else f"plan: {mark.text}"


def _request_text(request: Request) -> str:
    status = {None: "no response", 0: "no response"}.get(request.status, str(request.status))
    effect = "" if request.commits else ", nothing changed"
    return f"{OPERATOR}: {request}: {status}{effect}"


def _cause(history: History, commits: Sequence[Commit], request: Request) -> str:
    """Return the event that a write of the operator most likely follows."""
    seen = [
        commit
        for commit in commits
        if commit.position < request.position and history.is_watched(commit)
    ]
    related = [commit for commit in seen if _is_related(commit, request)]
    return str((related or seen)[-1]) if seen else ""


def _is_related(commit: Commit, request: Request) -> bool:
    target, changed = request.object, commit.object
    if target == changed:
        return True
    owners = {owner.get("name") for owner in commit.metadata.get("ownerReferences") or ()}
    return target.namespace == changed.namespace and (
        target.name == changed.name or target.name in owners
    )


def _server_cause(commits: Sequence[Commit], commit: Commit) -> str:
    """Return the event that a write of the server's controllers follows: for the garbage collector
    that of the owner."""
    if commit.actor != SERVER:
        return ""
    before = [item for item in commits if item.position < commit.position]
    owners = {owner.get("uid") for owner in commit.metadata.get("ownerReferences") or ()}
    of_owner = [item for item in before if item.metadata.get("uid") in owners]
    return str((of_owner or before)[-1]) if before else ""
