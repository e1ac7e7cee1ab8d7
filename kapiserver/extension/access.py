"""Who sends a request to an extension API server, and what users may do.

A server that stands alone trusts the client certificates of its own CA, and allows the group
system:masters everything: that is the administrator of its kubeconfig.
"""

from __future__ import annotations

from kapiserver.apiserver.authentication.anonymous import AnonymousAuthenticator
from kapiserver.apiserver.authentication.certificate import CertificateAuthenticator
from kapiserver.apiserver.authentication.client_authorities import (
    ClientAuthorities,
    client_authority_files,
)
from kapiserver.apiserver.authentication.union import UnionAuthenticator
from kapiserver.apiserver.authorization.privileged_group import PrivilegedGroup
from kapiserver.apiserver.authorization.union import UnionAuthorizer
from kapiserver.apiserver.authorizer import Authorizer, Decision, Rules, Verdict
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User
from kapiserver.storage.concurrency.clock import Clock

ALWAYS_ALLOWED_PATHS = frozenset(("/healthz", "/livez", "/readyz"))
"""The paths that anybody may read, as --authorization-always-allow-paths of Go's servers."""
_ALLOW = Decision(verdict=Verdict.ALLOW)
_NO_OPINION = Decision(verdict=Verdict.NO_OPINION)


class AllowedPaths:
    """Allows reads of the paths of health checks. Mirrors pkg/authorization/path of
    k8s.io/apiserver."""

    async def authorize(self, _user: User, info: RequestInfo) -> Decision:
        """Allow the paths, and have no opinion on all else."""
        is_allowed = not info.is_resource_request and info.path in ALWAYS_ALLOWED_PATHS
        return _ALLOW if is_allowed else _NO_OPINION

    async def rules_for(self, _user: User, _namespace: str) -> Rules:
        """Return no rules: everybody has these rights."""
        return Rules()


class Access:
    """The authenticators and authorizers of one server."""

    def __init__(self, config: Config, clock: Clock) -> None:
        """Read the files of the settings. Raises ValueError, OSError."""
        files = client_authority_files(config)
        authorities = ClientAuthorities(files) if files else None
        self.authenticator = UnionAuthenticator(
            requests=[CertificateAuthenticator(authorities, clock)],
            anonymous=AnonymousAuthenticator(),
        )
        self.authorizer: Authorizer = UnionAuthorizer([PrivilegedGroup(), AllowedPaths()])

    async def start(self) -> None:
        """Start background work."""

    async def stop(self) -> None:
        """End background work and close connections. Idempotent."""
