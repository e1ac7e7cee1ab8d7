"""The authenticators of one server, in order: those that its settings turn on.

To add an authenticator, write it in a module of this package and add a row to `_REQUESTS` or
`_TOKENS`. Mirrors pkg/kubeapiserver/authenticator/config.go of kube-apiserver.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from kapiserver.api.resource_client import Client
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.anonymous import AnonymousAuthenticator
from kapiserver.apiserver.authentication.authenticator import (
    Authenticator,
    ManagedAuthenticator,
    TokenAuthenticator,
)
from kapiserver.apiserver.authentication.bootstrap_token import BootstrapTokenAuthenticator
from kapiserver.apiserver.authentication.certificate import CertificateAuthenticator
from kapiserver.apiserver.authentication.client_authorities import (
    ClientAuthorities,
    client_authority_files,
)
from kapiserver.apiserver.authentication.jwt.token import ALGORITHMS
from kapiserver.apiserver.authentication.metrics import AuthenticationMetrics
from kapiserver.apiserver.authentication.request_header import RequestHeaderAuthenticator
from kapiserver.apiserver.authentication.service_accounts.authenticator import (
    ServiceAccountAuthenticator,
)
from kapiserver.apiserver.authentication.service_accounts.legacy import (
    LegacyServiceAccountAuthenticator,
)
from kapiserver.apiserver.authentication.service_accounts.tokens import ServiceAccountTokens
from kapiserver.apiserver.authentication.token_file import TokenFileAuthenticator
from kapiserver.apiserver.authentication.union import UnionAuthenticator
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.configuration_files import ReloadedFile
from kapiserver.apiserver.user import User
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.objects.store_registry import StoreRegistry


class Parts(Struct, frozen=True, kw_only=True):
    """The parts of the server that authenticators use.

    tokens      signs and verifies service account tokens
    anonymous   accepts requests without credentials; --authentication-config changes it
    """

    config: Config
    stores: StoreRegistry
    clock: Clock
    tokens: ServiceAccountTokens
    anonymous: AnonymousAuthenticator
    metrics: AuthenticationMetrics


def _token_file(parts: Parts) -> TokenAuthenticator | None:
    file = parts.config.authentication.token_auth_file
    return TokenFileAuthenticator.of_file(file, parts.tokens.audiences) if file else None


def _service_account(parts: Parts) -> TokenAuthenticator:
    return ServiceAccountAuthenticator(parts.tokens, parts.stores, parts.clock, parts.metrics)


def _legacy_service_account(parts: Parts) -> TokenAuthenticator:
    return LegacyServiceAccountAuthenticator(parts.tokens, parts.stores, parts.clock, parts.metrics)


def _bootstrap_token(parts: Parts) -> TokenAuthenticator | None:
    if not parts.config.authentication.enable_bootstrap_token_auth:
        return None
    return BootstrapTokenAuthenticator(parts.stores, parts.clock, parts.tokens.audiences)


def _webhook(parts: Parts) -> TokenAuthenticator | None:
    config = parts.config
    file = config.authentication.authentication_token_webhook_config_file
    if file is None:
        return None
    # Loaded when they are configured: they load an HTTP client.
    from kapiserver.apiserver.authentication.token_webhook import WebhookTokenAuthenticator
    from kapiserver.apiserver.webhooks.kubeconfig import read_kubeconfig

    return WebhookTokenAuthenticator(
        read_kubeconfig(
            file, parts.clock, purpose="authentication webhook", metrics=parts.metrics.client
        ),
        parts.clock,
        version=config.authentication.authentication_token_webhook_version,
        audiences=parts.tokens.audiences,
        ttl=config.authentication.authentication_token_webhook_cache_ttl,
        metrics=parts.metrics,
    )


def _jwt(parts: Parts) -> TokenAuthenticator | None:
    config = parts.config
    if config.authentication.authentication_config is None and not config.oidc.oidc_issuer_url:
        return None
    # Loaded when they are configured: they load an HTTP client.
    from kapiserver.apiserver.authentication.jwt.authenticator import (
        ConfigurationSource,
        JwtAuthenticator,
    )
    from kapiserver.apiserver.authentication.jwt.settings import (
        PURPOSE,
        configuration_of_flags,
        decode_authentication_configuration,
    )

    path, source = config.authentication.authentication_config, None
    if path is not None:
        decode = functools.partial(decode_authentication_configuration, path, config)
        file = ReloadedFile(path, PURPOSE, parts.clock, parts.metrics.reloads)
        source = ConfigurationSource(file, decode)
        tree = decode(file.data)
        algorithms: Sequence[str] = ALGORITHMS
    else:
        tree = configuration_of_flags(config)
        algorithms = config.oidc.oidc_signing_algs
    return JwtAuthenticator(
        tree,
        source,
        parts.clock,
        parts.tokens.audiences,
        parts.anonymous,
        algorithms,
        parts.metrics,
    )


def _issuers(parts: Parts, configuration: Tree) -> TokenAuthenticator:
    """Return the authenticator of tokens of issuers that no file and no flag names."""
    from kapiserver.apiserver.authentication.jwt.authenticator import JwtAuthenticator

    return JwtAuthenticator(
        configuration,
        None,
        parts.clock,
        parts.tokens.audiences,
        parts.anonymous,
        metrics=parts.metrics,
    )


def _request_header(parts: Parts) -> Authenticator | None:
    file = parts.config.authentication.requestheader_client_ca_file
    if file is None:
        return None
    authorities = ClientAuthorities([file])
    return RequestHeaderAuthenticator(parts.config.authentication, authorities, parts.clock)


def _certificate(parts: Parts) -> Authenticator | None:
    config = parts.config
    if config.serving.secure_port is None:
        return None
    files = client_authority_files(config)
    # TLS trusts the CA of logical clusters, too, whose users are nobody here.
    has_others = config.logical_clusters.enable_logical_clusters
    authorities = ClientAuthorities(files) if files or has_others else None
    accept_unknown = config.authentication.requestheader_client_ca_file is None and not has_others
    return CertificateAuthenticator(
        authorities, parts.clock, accept_unknown=accept_unknown, metrics=parts.metrics
    )


def _certificate_of(parts: Parts, client_ca: str) -> Authenticator:
    """Return the authenticator of certificates that the CA in a PEM text has signed."""
    authorities = ClientAuthorities([])
    authorities.trust(client_ca)
    return CertificateAuthenticator(
        authorities, parts.clock, accept_unknown=False, metrics=parts.metrics
    )


_REQUESTS: tuple[Callable[[Parts], Authenticator | None], ...] = (
    _request_header,
    _certificate,
)
"""Authenticators of connections and headers; the first that recognizes the user decides."""
_TOKENS: tuple[Callable[[Parts], TokenAuthenticator | None], ...] = (
    _token_file,
    _service_account,
    _legacy_service_account,
    _bootstrap_token,
    _jwt,
    _webhook,  # last: it costs a call
)
"""Authenticators of bearer tokens, asked after those of requests."""


class Access(Struct, frozen=True, kw_only=True):
    """What a cluster has in place of files and connections that name its users.

    signing_key     PEM of the key that signs the tokens of its service accounts
    users           users by their bearer tokens
    client_ca       PEM of the CA of client certificates that name other users; "": no others
    issuers         a valid AuthenticationConfiguration with issuers of other users; None: no others
    fallback        asked about a request whose credentials no authenticator accepts
    """

    signing_key: bytes
    users: Mapping[str, User]
    client_ca: str = ""
    issuers: Tree | None = None
    fallback: Authenticator


class Authentication:
    """The authenticators of one server.

    authenticator   their union
    files           the files that `reload` reads
    """

    def __init__(
        self,
        config: Config,
        stores: StoreRegistry,
        clock: Clock,
        tokens: ServiceAccountTokens,
        metrics: AuthenticationMetrics,
        access: Access | None = None,
    ) -> None:
        """Read the files of the settings; `tokens` as in Parts. Raises BadTokenFile,
        BadConfiguration, OSError."""
        anonymous = AnonymousAuthenticator(enabled=config.authentication.anonymous_auth)
        parts = Parts(
            config=config,
            stores=stores,
            clock=clock,
            tokens=tokens,
            anonymous=anonymous,
            metrics=metrics,
        )
        requests = [request for factory in _REQUESTS if (request := factory(parts)) is not None]
        token_authenticators = [
            token for factory in _TOKENS if (token := factory(parts)) is not None
        ]
        if access is not None:
            if access.client_ca:
                requests.append(_certificate_of(parts, access.client_ca))
            users = TokenFileAuthenticator(access.users, tokens.audiences)
            token_authenticators = [users, *token_authenticators]
            if access.issuers is not None:
                token_authenticators.append(_issuers(parts, access.issuers))
        self.authenticator = UnionAuthenticator(
            token_authenticators,
            requests=requests,
            anonymous=anonymous,
            fallback=access.fallback if access is not None else None,
        )
        files = (config.authentication.authentication_config, config.authentication.token_auth_file)
        self.files = [file for file in files if file is not None]
        self._managed = [
            authenticator
            for authenticator in (*requests, *token_authenticators)
            if isinstance(authenticator, ManagedAuthenticator)
        ]

    def start(self, client: Client) -> None:
        """Start the background work of the authenticators. Call on the event loop.

        client  a client of the cluster itself, which is not authorized
        """
        for authenticator in self._managed:
            authenticator.start(client)

    def reload(self) -> None:
        """Read the files again. An unusable one is logged and changes nothing."""
        for authenticator in self._managed:
            authenticator.reload()

    async def stop(self) -> None:
        """End the background work and close connections. Idempotent."""
        for authenticator in self._managed:
            await authenticator.stop()
