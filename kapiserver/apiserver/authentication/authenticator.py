"""The contract of authenticators: which user sent a request.

To add an authenticator, write a class with `authenticate` in a module of this package, and add it
to the union in `kapiserver/app.py`; one for bearer tokens has `authenticate_token` too, for
TokenReview. Mirrors pkg/authentication/authenticator of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kapiserver.apiserver.authentication.user import User
from kapiserver.apiserver.request import Request


class Authenticator(Protocol):
    """Recognizes one kind of credentials."""

    def authenticate(self, request: Request) -> User | Awaitable[User | None] | None:
        """Return the user, or None if the request has no credentials that this authenticator
        recognizes. An authenticator that reads the store returns an awaitable of the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenIdentity:
    """The user of a valid token, and the requested audiences for which it is valid."""

    user: User
    audiences: Sequence[str]


class TokenAuthenticator(Authenticator, Protocol):
    """Recognizes one kind of bearer tokens."""

    async def authenticate_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> TokenIdentity | None:
        """Return the identity, or None if the token is unknown, expired or valid for none of the
        audiences. Without audiences those of this server count."""


def bearer_token(request: Request) -> str:
    """Return the token of the request's Authorization header, or ""."""
    scheme, _, token = request.header("Authorization").strip().partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
