"""Never allows anything. Mirrors alwaysDenyAuthorizer of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.authorizer import Decision, Rules, Verdict
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User

_NO_OPINION = Decision(verdict=Verdict.NO_OPINION, reason="Everything is forbidden.")


class AlwaysDeny:
    """Denies every request, for tests; other authorizers may still allow it."""

    async def authorize(self, _user: User, _info: RequestInfo) -> Decision:
        """Have no opinion, which denies unless another authorizer allows."""
        return _NO_OPINION

    async def rules_for(self, _user: User, _namespace: str) -> Rules:
        """Return no rules."""
        return Rules()
