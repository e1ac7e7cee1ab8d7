"""Authenticates requests without credentials as `system:anonymous`.

Mirrors pkg/authentication/request/anonymous of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Collection

from kapiserver.apiserver.authentication.user import ANONYMOUS, User
from kapiserver.apiserver.request import Request


class AnonymousAuthenticator:
    """Accepts requests without credentials; the union asks it last.

    paths   the only ones for which requests are accepted; None means all
    """

    def __init__(self, paths: Collection[str] | None = None) -> None:
        self._paths = paths

    def authenticate(self, request: Request) -> User | None:
        """Return ANONYMOUS, or None if the path needs credentials."""
        if self._paths is None or request.path in self._paths:
            return ANONYMOUS
        return None
