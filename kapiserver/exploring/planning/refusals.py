"""The ways in which an API server refuses a request, for plans that refuse."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kapiserver.apiserver.faults import DropConnection
from kapiserver.apiserver.request import Request as HttpRequest
from kapiserver.testing.faults.injected_errors import injected_error

READS = ("get", "list")
WRITES = ("create", "update", "patch", "delete", "deletecollection")


class Refusal(Struct, frozen=True, kw_only=True):
    """A response in place of what a request asks for.

    status      the HTTP status; 0: the connection ends without a response
    text        what it is, for a report
    verbs       the verbs to which a server responds so
    """

    status: int
    text: str
    verbs: tuple[str, ...] = (*READS, *WRITES)

    def error(self, http: HttpRequest, name: str) -> Exception:
        """Return the error to raise in place of calling the handler."""
        if not self.status:
            return DropConnection()
        return injected_error(http, self.status, name=name, message="", retry_after=1)


REFUSALS: Mapping[str, Refusal] = {
    "internal": Refusal(status=500, text="500 Internal Error"),
    # A server tries patches again, so that conflicts of theirs hardly ever reach a client.
    "conflict": Refusal(status=409, text="409 Conflict", verbs=("update",)),
    "throttled": Refusal(status=429, text="429 Too Many Requests"),
    "timeout": Refusal(status=504, text="504 Timeout"),
    "dropped": Refusal(status=0, text="a closed connection"),
    "forbidden": Refusal(status=403, text="403 Forbidden, a missing permission", verbs=WRITES),
}
"""Refusals by the argument of an injection."""


class RepeatedRefusal(Struct, frozen=True):
    """A refusal of one request and of similar requests that follow, `times` times in all."""

    refusal: Refusal
    times: int

    def __str__(self) -> str:
        more = f", as the next {self.times - 1} requests" if self.times > 1 else ""
        return f"{self.refusal.text}{more}"


def parse_refusal(argument: str) -> RepeatedRefusal:
    """Return a refusal and how often it happens: `internal`, or `internal*3`. Raises
    ValueError."""
    name, _, times = argument.partition("*")
    if name not in REFUSALS or not (times or "1").isdigit():
        raise ValueError(f"{argument!r} is not a refusal; write {', '.join(REFUSALS)}, or NAME*3")
    return RepeatedRefusal(REFUSALS[name], int(times or 1))
