"""Allows the group system:masters everything. Mirrors NewPrivilegedGroups of k8s.io/apiserver."""

from __future__ import annotations

from kapiserver.apiserver.authorizer import Decision, Rules, Verdict
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import MASTERS, User

_ALLOW = Decision(verdict=Verdict.ALLOW)
_NO_OPINION = Decision(verdict=Verdict.NO_OPINION)


class PrivilegedGroup:
    """The first authorizer in every mode."""

    async def authorize(self, user: User, _info: RequestInfo) -> Decision:
        """Allow everything if the user is a member of the group."""
        return _ALLOW if MASTERS in user.groups else _NO_OPINION

    async def rules_for(self, _user: User, _namespace: str) -> Rules:
        """Return no rules, as in kube-apiserver: RBAC has a role binding for the group."""
        return Rules()
