"""The ways in which an API server refuses a write, for plans that refuse."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from kapiserver.apiserver.request import Request as HttpRequest
from kapiserver.testing.faults.injected_errors import injected_error


class Refusal(Struct, frozen=True, kw_only=True):
    """A response in place of a write.

    text        what it is, for a report
    verbs       the verbs to which a server responds so
    message     the message of the Status, "" for that of kube-apiserver
    """

    status: int
    text: str
    verbs: tuple[str, ...] = ("create", "update", "patch", "delete", "deletecollection")
    message: str = ""

    def error(self, http: HttpRequest, name: str) -> Exception:
        """Return the error to raise in place of calling the handler."""
        return injected_error(http, self.status, name=name, message=self.message, retry_after=1)


REFUSALS: Mapping[str, Refusal] = {
    "internal": Refusal(status=500, text="500 Internal Error"),
    "conflict": Refusal(status=409, text="409 Conflict", verbs=("update", "patch")),
    "throttled": Refusal(status=429, text="429 Too Many Requests"),
    "timeout": Refusal(status=504, text="504 Timeout"),
    "webhook": Refusal(
        status=500,
        text="the error of a webhook that cannot be reached",
        verbs=("create", "update", "patch"),
        message='Internal error occurred: failed calling webhook "check.example.com": connection '
        "refused",
    ),
    "quota": Refusal(
        status=403,
        text="403 Forbidden, an exceeded quota",
        verbs=("create",),
        message="exceeded quota: small, requested: count=1, used: count=5, limited: count=5",
    ),
    "forbidden": Refusal(status=403, text="403 Forbidden, a missing permission"),
}
"""Refusals by the argument of an injection."""
