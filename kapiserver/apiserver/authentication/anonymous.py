"""Authenticates requests without credentials as `system:anonymous`.

Mirrors pkg/authentication/request/anonymous of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Collection

from kapiserver.apiserver.request import Request
from kapiserver.apiserver.user import ANONYMOUS, User


class AnonymousAuthenticator:
    """Accepts requests without credentials; the union asks it last.

    enabled     whether it does unless a configuration decides: --anonymous-auth
    """

    def __init__(self, *, enabled: bool = True) -> None:
        self.configure(enabled=enabled)

    def configure(self, *, enabled: bool, paths: Collection[str] | None = None) -> None:
        """Accept requests for these paths from now on; None means all paths."""
        self._paths: Collection[str] | None = paths if enabled else ()

    def authenticate(self, request: Request) -> User | None:
        """Return ANONYMOUS, or None if the path needs credentials."""
        if self._paths is None or request.path in self._paths:
            return ANONYMOUS
        return None
