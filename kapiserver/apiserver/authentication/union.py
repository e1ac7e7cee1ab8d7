"""Several authenticators in order. Mirrors pkg/authentication/request/union of k8s.io/apiserver."""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.apiserver.authentication.anonymous import AnonymousAuthenticator
from kapiserver.apiserver.authentication.authenticator import (
    Authenticator,
    TokenAuthenticator,
    TokenIdentity,
)
from kapiserver.apiserver.authentication.certificate import CertificateAuthenticator
from kapiserver.apiserver.authentication.user import ANONYMOUS, User
from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.request import Request


class UnionAuthenticator:
    """Asks each authenticator in turn: certificates, tokens, and last requests without any.

    tokens      authenticators of bearer tokens, in order
    anonymous   whether requests without credentials are accepted
    """

    def __init__(
        self, tokens: Sequence[TokenAuthenticator] = (), *, anonymous: bool = True
    ) -> None:
        self._tokens = tuple(tokens)
        last = (AnonymousAuthenticator(),) if anonymous else ()
        self._authenticators: tuple[Authenticator, ...] = (
            CertificateAuthenticator(),
            *self._tokens,
            *last,
        )

    async def authenticate(self, request: Request) -> User:
        """Return the user whom the first authenticator recognizes; a request that has a user
        already (of the insecure port) keeps it. Raises Unauthorized."""
        if request.user is not ANONYMOUS:
            return request.user
        for authenticator in self._authenticators:
            user = authenticator.authenticate(request)
            if not (user is None or isinstance(user, User)):
                user = await user
            if user is not None:
                return user
        raise Unauthorized

    async def authenticate_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> TokenIdentity | None:
        """Return the identity that the first token authenticator finds; see TokenAuthenticator."""
        for authenticator in self._tokens:
            identity = await authenticator.authenticate_token(token, audiences)
            if identity is not None:
                return identity
        return None
