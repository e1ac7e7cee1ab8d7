"""Finds hot loops: a client that sends the same write again and again."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import indent

from kapiserver.testing.history.diffs import changes
from kapiserver.testing.history.request_record import RequestRecord

WRITES = ("create", "update", "patch", "delete", "deletecollection")


def check_for_hot_loops(records: Sequence[RequestRecord], *, requests: int, within: float) -> None:
    """Raise AssertionError if one client sent more than `requests` requests with the same verb for
    the same object within this many seconds of the server's clock."""
    by_target: dict[tuple[str, ...], list[RequestRecord]] = {}
    for record in records:
        key = (record.user, record.user_agent, record.verb, record.target)
        by_target.setdefault(key, []).append(record)
    for (user, user_agent, verb, target), sent in by_target.items():
        for first, last in zip(sent, sent[requests:], strict=False):
            if last.time - first.time <= within:
                raise AssertionError(
                    f"hot loop: {user} ({user_agent}) sent {verb} {target} "
                    f"{requests + 1} times within {last.time - first.time:.3g} s "
                    f"({len(sent)} in all)\n{_compare_last(sent)}"
                )


def _compare_last(sent: Sequence[RequestRecord]) -> str:
    """Return the last two requests and what differs between their bodies."""
    if len(sent) == 1:
        return indent(str(sent[0]), "  ")
    before, after = sent[-2:]
    lines = [str(before), str(after)]
    if isinstance(before.body, dict) and isinstance(after.body, dict):
        differences = [str(change) for change in changes(before.body, after.body)]
        lines += ["their bodies differ:", *differences] if differences else ["with the same body"]
    return indent("\n".join(lines), "  ")
