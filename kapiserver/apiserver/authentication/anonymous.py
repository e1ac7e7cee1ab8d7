"""Authenticates requests without credentials as `system:anonymous`.

Mirrors pkg/authentication/request/anonymous of k8s.io/apiserver.
"""

from __future__ import annotations

from kapiserver.apiserver.authentication.authenticator import bearer_token
from kapiserver.apiserver.authentication.user import ANONYMOUS, User
from kapiserver.apiserver.request import Request


class AnonymousAuthenticator:
    """Recognizes requests without a bearer token; the last authenticator of a union."""

    def authenticate(self, request: Request) -> User | None:
        """Return ANONYMOUS, or None for a request with a token that no one else recognized."""
        return None if bearer_token(request) else ANONYMOUS
