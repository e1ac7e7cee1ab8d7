"""Several authenticators in order. Mirrors pkg/authentication/request/union,
pkg/authentication/request/bearertoken and pkg/authentication/token/union of k8s.io/apiserver."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kapiserver.apiserver.authentication.anonymous import AnonymousAuthenticator
from kapiserver.apiserver.authentication.authenticator import (
    Authenticator,
    InvalidCredentials,
    TokenAuthenticator,
    TokenIdentity,
    bearer_token,
)
from kapiserver.apiserver.authentication.certificate import CertificateAuthenticator
from kapiserver.apiserver.authentication.websocket_token import websocket_token
from kapiserver.apiserver.errors import Unauthorized
from kapiserver.apiserver.request import Request
from kapiserver.apiserver.user import ANONYMOUS, User

INVALID_TOKEN = "invalid bearer token"
_CERTIFICATES: tuple[Authenticator, ...] = (CertificateAuthenticator(),)
_ANONYMOUS = AnonymousAuthenticator()

_log = logging.getLogger(__name__)


class UnionAuthenticator:
    """Asks each authenticator in turn: those of requests, those of bearer tokens, and last the one
    of requests without credentials. A request with wrong credentials is refused even if anonymous
    requests are accepted.

    tokens      authenticators of bearer tokens, in order
    requests    the other authenticators, in order; they come before the tokens
    anonymous   accepts requests without credentials; None accepts none
    fallback    asked about a request whose credentials no other one accepts; None: there is none
    """

    def __init__(
        self,
        tokens: Sequence[TokenAuthenticator] = (),
        *,
        requests: Sequence[Authenticator] = _CERTIFICATES,
        anonymous: AnonymousAuthenticator | None = _ANONYMOUS,
        fallback: Authenticator | None = None,
    ) -> None:
        self._tokens = tuple(tokens)
        self._requests = tuple(requests)
        self._anonymous = anonymous
        self._fallback = () if fallback is None else (fallback,)

    async def authenticate(self, request: Request) -> User:
        """Return the user whom the first authenticator recognizes; a request that has a user
        already (of the insecure port) keeps it. Raises Unauthorized."""
        if request.user is not ANONYMOUS:
            return request.user
        errors: list[str] = []
        user = await _first_user(self._requests, request, errors)
        if user is not None:
            return user
        try:
            token = bearer_token(request) or websocket_token(request)
            identity = await self.authenticate_token(token) if token else None
        except InvalidCredentials as error:
            errors.append(str(error))
        else:
            if identity is not None:
                request.audit.annotations.update(identity.annotations)
                return identity.user
        user = await _first_user(self._fallback, request, errors)
        if user is not None:
            return user
        if not errors and self._anonymous is not None:
            user = self._anonymous.authenticate(request)
            if user is not None:
                return user
        if errors:
            _log.info("unable to authenticate the request: %s", ", ".join(errors))
        raise Unauthorized

    async def authenticate_token(self, token: str, audiences: Sequence[str] = ()) -> TokenIdentity:
        """Return the identity that the first token authenticator finds. Raises InvalidCredentials
        with the reasons of those that recognize the token and refuse it."""
        errors = [INVALID_TOKEN]
        for authenticator in self._tokens:
            try:
                identity = authenticator.authenticate_token(token, audiences)
                if not (identity is None or isinstance(identity, TokenIdentity)):
                    identity = await identity
            except InvalidCredentials as error:
                errors.append(str(error))
            else:
                if identity is not None:
                    return identity
        text = ", ".join(dict.fromkeys(errors))
        raise InvalidCredentials(f"[{text}]" if len(errors) > 1 else text)


async def _first_user(
    authenticators: Sequence[Authenticator], request: Request, errors: list[str]
) -> User | None:
    """Return the user whom the first authenticator recognizes. The reasons of those that recognize
    credentials and refuse them are added to `errors`."""
    for authenticator in authenticators:
        try:
            user = authenticator.authenticate(request)
            if not (user is None or isinstance(user, User)):
                user = await user
        except InvalidCredentials as error:
            errors.append(str(error))
        else:
            if user is not None:
                return user
    return None
