"""Allows all requests of authenticated users, and the public paths for anonymous users.

kube-apiserver's AlwaysAllow mode allows anonymous users everything too, and therefore refuses them
before it authorizes; here they may read health and version.
"""

from __future__ import annotations

from kapiserver.apiserver.authorizer import Decision, Rules, Verdict
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import UNAUTHENTICATED, User

_PUBLIC_PATHS = frozenset(("/healthz", "/livez", "/readyz", "/version", "/version/"))
"""The paths of kube-apiserver's role system:public-info-viewer."""
_ALLOW = Decision(verdict=Verdict.ALLOW)
_NO_OPINION = Decision(verdict=Verdict.NO_OPINION)
_ALL_RULES = Rules(
    resources=[{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    paths=[{"verbs": ["*"], "nonResourceURLs": ["*"]}],
)
_PUBLIC_RULES = Rules(paths=[{"verbs": ["get"], "nonResourceURLs": sorted(_PUBLIC_PATHS)}])


class AllowAuthenticated:
    """The authorizer of the mode AlwaysAllow."""

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Allow unless the user is anonymous and the path is not public."""
        if UNAUTHENTICATED not in user.groups:
            return _ALLOW
        public = info.verb == "get" and info.path in _PUBLIC_PATHS
        return _ALLOW if public else _NO_OPINION

    async def rules_for(self, user: User, _namespace: str) -> Rules:
        """Return one rule for everything, or the public paths for anonymous users."""
        return _PUBLIC_RULES if UNAUTHENTICATED in user.groups else _ALL_RULES
