"""The contract of authenticators: which user sent a request.

To add an authenticator, write a class in a module of this package and add a row to the table of
`chain.py`: one with `authenticate` for credentials of the connection or of headers, one with
`authenticate_token` for bearer tokens. Mirrors pkg/authentication/authenticator of
k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from kapiserver.api.resource_client import Client
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.user import User


class InvalidCredentials(Exception):
    """The credentials are of the authenticator's kind and are wrong; the message is for the log
    and for the status of a TokenReview."""


class Authenticator(Protocol):
    """Recognizes one kind of credentials."""

    def authenticate(self, request: Request) -> User | Awaitable[User | None] | None:
        """Return the user, or None if the request has no credentials that this authenticator
        recognizes. An authenticator that waits returns an awaitable of the same. Raises
        InvalidCredentials."""


class TokenIdentity(Struct, frozen=True, kw_only=True):
    """The user of a valid token.

    audiences       the requested audiences for which the token is valid
    annotations     annotations for the audit event of the request
    """

    user: User
    audiences: Sequence[str]
    annotations: Mapping[str, str] = field(default_factory=dict)


class TokenAuthenticator(Protocol):
    """Recognizes one kind of bearer tokens."""

    def authenticate_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> TokenIdentity | Awaitable[TokenIdentity | None] | None:
        """Return the identity, or None if the token is not of this kind or is valid for none of
        the audiences. Without audiences those of this server count. An authenticator that waits
        returns an awaitable of the same. Raises InvalidCredentials for a token that is expired,
        revoked or forged."""


class ManagedAuthenticator:
    """Base of authenticators that hold files, timers or connections. The methods do nothing."""

    def start(self, client: Client) -> None:
        """Start background work. Called on the event loop.

        client  a client of the cluster itself, which is not authorized
        """

    def reload(self) -> None:
        """Read files that changed. An unusable one is logged and changes nothing."""

    async def stop(self) -> None:
        """End background work and close connections. Idempotent."""


def shared_audiences(requested: Iterable[str], valid: Collection[str]) -> list[str]:
    """Return the requested audiences that are known, each once, in their order."""
    return [audience for audience in dict.fromkeys(requested) if audience in valid]


def bearer_token(request: Request) -> str:
    """Return the token of the request's Authorization header, or ""."""
    scheme, _, token = request.header("Authorization").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
