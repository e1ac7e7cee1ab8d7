"""Delegated authentication and authorization: a server with a host cluster also trusts the users
and front proxies of the host, and asks the host about tokens and rights.

Mirrors DelegatingAuthenticationOptions and DelegatingAuthorizationOptions of k8s.io/apiserver.
"""

from __future__ import annotations

from collections.abc import Sequence

from kapiserver.apiserver.authentication.authenticator import Authenticator, TokenAuthenticator
from kapiserver.apiserver.authentication.token_webhook import WebhookTokenAuthenticator
from kapiserver.apiserver.authorization.webhook import WebhookAuthorizer
from kapiserver.apiserver.authorizer import Authorizer
from kapiserver.apiserver.config import Config
from kapiserver.extension.access import Access
from kapiserver.extension.delegation import Delegation
from kapiserver.extension.host_cluster import find_host
from kapiserver.extension.host_trust import HostTrust
from kapiserver.storage.concurrency.clock import Clock

HOST_CA = "host-ca.crt"
"""The CAs of the host in --cert-dir."""
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class DelegatedAccess(Access):
    """The authenticators and authorizers of a server with a host."""

    def __init__(self, config: Config, clock: Clock, delegation: Delegation) -> None:
        self._clock = clock
        self._delegation = delegation
        self._host = find_host(delegation.authentication_kubeconfig or delegation.kubeconfig)
        self._reviewers: list[WebhookTokenAuthenticator | WebhookAuthorizer] = []
        self._trust: HostTrust | None = None
        super().__init__(config, clock, delegation)

    async def start(self) -> None:
        """Look the CAs of the host up. Raises ValueError if that fails and must not, OSError."""
        if self._trust is not None:
            tolerates = self._delegation.authentication_tolerate_lookup_failure
            await self._trust.start(tolerates_failure=tolerates)

    async def stop(self) -> None:
        """End background work and close connections. Idempotent."""
        if self._trust is not None:
            await self._trust.stop()
        for reviewer in self._reviewers:
            await reviewer.stop()

    def _front_proxies(self, config: Config, clock: Clock) -> Sequence[Authenticator]:
        own = super()._front_proxies(config, clock)
        if self._host is None or self._delegation.authentication_skip_lookup:
            return own
        folder = config.certificates.cert_dir
        if config.serving.secure_port is not None and folder is not None:
            self.ca_file = folder / HOST_CA
        # A file that a flag names counts in place of what the host says.
        users = self._users if config.authentication.client_ca_file is None else None
        self._trust = HostTrust(self._host, clock, users, self.ca_file)
        return own or [self._trust.front_proxies]

    def _tokens(self) -> Sequence[TokenAuthenticator]:
        if self._host is None:
            return ()
        tokens = WebhookTokenAuthenticator(
            self._host.reviews(TOKEN_REVIEWS, self._clock),
            self._clock,
            version="v1",
            audiences=(),
            ttl=self._delegation.authentication_token_webhook_cache_ttl,
        )
        self._reviewers.append(tokens)
        return [tokens]

    def _authorizers(self) -> Sequence[Authorizer]:
        settings = self._delegation
        host = find_host(settings.authorization_kubeconfig or settings.kubeconfig)
        if host is None:
            return ()
        webhook = {
            "subjectAccessReviewVersion": "v1",
            "failurePolicy": "NoOpinion",
            "authorizedTTL": f"{settings.authorization_webhook_cache_authorized_ttl:f}s",
            "unauthorizedTTL": f"{settings.authorization_webhook_cache_unauthorized_ttl:f}s",
        }
        client = host.reviews(ACCESS_REVIEWS, self._clock)
        reviews = WebhookAuthorizer(client, "of the host", webhook, self._clock)
        self._reviewers.append(reviews)
        return [reviews]
