"""The contract of authorizers, which decide whether a user may make a request.

To add an authorizer, write a class with these two methods in a module of `authorization/`, and add
a row to the factories in its `modes.py`. Mirrors pkg/authorization/authorizer of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Protocol, runtime_checkable

from msgspec import Struct

from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User


class Verdict(Enum):
    """The opinion of an authorizer on one request."""

    ALLOW = "allow"
    DENY = "deny"
    """No other authorizer may allow it."""
    NO_OPINION = "no opinion"
    """The next authorizer decides; the request is forbidden when no authorizer allows it."""


_ALLOW = Verdict.ALLOW  # a look-up in an Enum takes 900 instructions


class Decision(Struct, frozen=True, kw_only=True):
    """A verdict and its reason, which the client and the audit log may read; `error` says why an
    authorizer could not decide."""

    verdict: Verdict
    reason: str = ""
    error: str = ""

    @property
    def allowed(self) -> bool:
        """Whether the verdict is ALLOW."""
        return self.verdict is _ALLOW


class Rules(Struct, frozen=True, kw_only=True):
    """The rights of a user in a namespace, as far as authorizers can list them.

    resources   rules in the form of authorization.k8s.io/v1 ResourceRule
    paths       rules in the form of its NonResourceRule
    incomplete  whether an authorizer cannot list all its rules; `error` has the reason
    """

    resources: Sequence[Mapping[str, Sequence[str]]] = ()
    paths: Sequence[Mapping[str, Sequence[str]]] = ()
    incomplete: bool = False
    error: str = ""


class Authorizer(Protocol):
    """Decides on requests."""

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Decide on one request. Its attributes are those of the request info: verb, group,
        resource, subresource, namespace, name, or a path."""

    async def rules_for(self, user: User, namespace: str) -> Rules:
        """List the rights of the user in the namespace, for SelfSubjectRulesReview."""


@runtime_checkable
class ManagedAuthorizer(Authorizer, Protocol):
    """An authorizer that subscribes to informers, or holds connections."""

    async def start(self) -> None:
        """Begin; return when requests can be decided on. Raises StorageError."""

    async def stop(self) -> None:
        """Stop, and close connections. Idempotent."""
