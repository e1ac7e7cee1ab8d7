"""Who sends a request to an extension API server, and what users may do.

A server that stands alone trusts the client certificates of its own CA, and allows the group
system:masters everything: that is the administrator of its kubeconfig. `delegated_access.py` adds
the host cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kapiserver.apiserver.authentication.anonymous import AnonymousAuthenticator
from kapiserver.apiserver.authentication.authenticator import Authenticator, TokenAuthenticator
from kapiserver.apiserver.authentication.certificate import CertificateAuthenticator
from kapiserver.apiserver.authentication.client_authorities import (
    ClientAuthorities,
    client_authority_files,
)
from kapiserver.apiserver.authentication.request_header import RequestHeaderAuthenticator
from kapiserver.apiserver.authentication.union import UnionAuthenticator
from kapiserver.apiserver.authorization.privileged_group import PrivilegedGroup
from kapiserver.apiserver.authorization.union import UnionAuthorizer
from kapiserver.apiserver.authorizer import Authorizer, Decision, Rules, Verdict
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User
from kapiserver.extension.delegation import Delegation
from kapiserver.storage.concurrency.clock import Clock

_ALLOW = Decision(verdict=Verdict.ALLOW)
_NO_OPINION = Decision(verdict=Verdict.NO_OPINION)


class AllowedPaths:
    """Allows requests for the paths of health checks. Mirrors pkg/authorization/path of
    k8s.io/apiserver."""

    def __init__(self, paths: Sequence[str]) -> None:
        """An asterisk at the end of a path stands for all paths that begin so."""
        trimmed = [path.removeprefix("/") for path in paths]
        self._paths = frozenset(path for path in trimmed if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in trimmed if path.endswith("*"))

    async def authorize(self, _user: User, info: RequestInfo) -> Decision:
        """Allow the paths, and have no opinion on all else."""
        if info.is_resource_request:
            return _NO_OPINION
        path = info.path.removeprefix("/")
        is_allowed = path in self._paths or path.startswith(self._prefixes)
        return _ALLOW if is_allowed else _NO_OPINION

    async def rules_for(self, _user: User, _namespace: str) -> Rules:
        """Return no rules: everybody has these rights."""
        return Rules()


class Access:
    """The authenticators and authorizers of one server.

    ca_file     CAs of the host, for TLS; None without any. The file exists once `start` has
                returned.
    """

    ca_file: Path | None = None

    def __init__(self, config: Config, clock: Clock, delegation: Delegation) -> None:
        """Read the files of the settings. Raises ValueError, OSError."""
        self._users = ClientAuthorities(client_authority_files(config))
        proxies = self._front_proxies(config, clock)
        certificates = CertificateAuthenticator(
            # A certificate of unknown chain may be that of a proxy.
            self._users, clock, accept_unknown=not proxies
        )  # fmt: skip
        self.authenticator = UnionAuthenticator(
            self._tokens(), requests=[*proxies, certificates], anonymous=AnonymousAuthenticator()
        )
        paths = AllowedPaths(delegation.authorization_always_allow_paths)
        self.authorizer: Authorizer = UnionAuthorizer(
            [PrivilegedGroup(), paths, *self._authorizers()]
        )

    async def start(self) -> None:
        """Start background work. Raises ValueError, OSError."""

    async def stop(self) -> None:
        """End background work and close connections. Idempotent."""

    def _front_proxies(self, config: Config, clock: Clock) -> Sequence[Authenticator]:
        settings = config.authentication
        file = settings.requestheader_client_ca_file
        if file is None:
            return ()
        return [RequestHeaderAuthenticator(settings, ClientAuthorities([file]), clock)]

    def _tokens(self) -> Sequence[TokenAuthenticator]:
        return ()

    def _authorizers(self) -> Sequence[Authorizer]:
        return ()
