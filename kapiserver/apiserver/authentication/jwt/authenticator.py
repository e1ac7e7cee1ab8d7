"""Authenticates JSON Web Tokens of OpenID Connect issuers, by `--authentication-config` or the
`--oidc-*` flags.

Each issuer has keys and rules of its own; a token goes to the issuer that it names. The file is
read again when it changes; an invalid one is logged and changes nothing. Mirrors
plugin/pkg/authenticator/token/oidc and pkg/server/options/authentication.go of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kapiserver.api.errors import Path, forbidden
from kapiserver.api.resource_client import Client
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.anonymous import AnonymousAuthenticator
from kapiserver.apiserver.authentication.authenticator import (
    InvalidCredentials,
    ManagedAuthenticator,
    TokenIdentity,
    shared_audiences,
)
from kapiserver.apiserver.authentication.jwt.claims import ClaimMapper
from kapiserver.apiserver.authentication.jwt.distributed_claims import DistributedClaims
from kapiserver.apiserver.authentication.jwt.keys import IssuerKeys
from kapiserver.apiserver.authentication.jwt.token import (
    ALGORITHMS,
    UnverifiedToken,
    parse_token,
)
from kapiserver.apiserver.authentication.metrics import AuthenticationMetrics
from kapiserver.apiserver.authentication.token_cache import TokenCache
from kapiserver.apiserver.configuration_files import BadConfiguration, ReloadedFile
from kapiserver.apiserver.user import User
from kapiserver.metrics import Reloads
from kapiserver.storage.concurrency.background_tasks import BackgroundTasks
from kapiserver.storage.concurrency.clock import Clock

CACHE_SECONDS = 10.0
"""How long a verified token is not verified again; never longer than it is valid."""

_log = logging.getLogger(__name__)


class JwtIssuer:
    """The keys and rules of one issuer; `tree` is a valid JWTAuthenticator."""

    def __init__(
        self,
        tree: Tree,
        clock: Clock,
        algorithms: Sequence[str],
        metrics: AuthenticationMetrics,
    ) -> None:
        self._metrics = metrics
        digest = hashlib.sha256(tree["issuer"]["url"].encode()).hexdigest()
        self.url_hash = f"sha256:{digest}"
        fetches = metrics.key_fetches.setdefault(self.url_hash, Reloads())
        self.keys = IssuerKeys(tree["issuer"], clock, algorithms, fetches)
        self._clock = clock
        self._audiences = frozenset(tree["issuer"]["audiences"])
        self._mapper = ClaimMapper(tree)
        self._distributed = _distributed_claims(tree, clock, algorithms)
        self._cache: TokenCache[User] = TokenCache(clock, requests=metrics.token_cache)

    async def stop(self) -> None:
        """End fetches and close connections. Idempotent."""
        await self.keys.stop()
        if self._distributed is not None:
            await self._distributed.stop()

    async def user(self, token: UnverifiedToken) -> User:
        """Return the user of a token of this issuer. Raises InvalidCredentials."""
        user = self._cache.get(token.text)
        if user is not None:
            return user
        started, result = time.perf_counter(), "failure"
        try:
            user = await self._verified_user(token)
            result = "success"
        finally:
            seconds = time.perf_counter() - started
            self._metrics.jwt_seconds.observe((result, self.url_hash), seconds)
        return user

    async def _verified_user(self, token: UnverifiedToken) -> User:
        if self._audiences.isdisjoint(token.audiences):
            raise InvalidCredentials("oidc: verify token: oidc: expected audience not found")
        now = self._clock.now()
        token.check_time(now, expiry_leeway=0)
        await self.keys.verify(token)  # last, because it may ask the issuer
        claims = token.claims
        if self._distributed is not None:
            claims = await self._distributed.expand(claims)
        user = self._mapper.user(claims)
        self._cache.put(token.text, user, until=min(token.claims["exp"], now + CACHE_SECONDS))
        return user


def _distributed_claims(
    tree: Tree, clock: Clock, algorithms: Sequence[str]
) -> DistributedClaims | None:
    """Return what resolves the groups of an issuer; None if they are not a claim."""
    claim = ((tree.get("claimMappings") or {}).get("groups") or {}).get("claim")
    return DistributedClaims(tree["issuer"], claim, clock, algorithms) if claim else None


class ConfigurationSource(NamedTuple):
    """The file of an AuthenticationConfiguration, and its decoder."""

    file: ReloadedFile
    decode: Callable[[bytes], Tree]


class JwtAuthenticator(ManagedAuthenticator):
    """Recognizes the tokens of all configured issuers.

    tree        a valid AuthenticationConfiguration
    source      the file of the configuration, and its decoder, which raises BadConfiguration; None
                if flags stand for it
    audiences   the audiences of this server
    anonymous   whether the configuration sets up anonymous requests
    """

    def __init__(
        self,
        tree: Tree,
        source: ConfigurationSource | None,
        clock: Clock,
        audiences: Sequence[str],
        anonymous: AnonymousAuthenticator,
        algorithms: Sequence[str] = ALGORITHMS,
        metrics: AuthenticationMetrics | None = None,
    ) -> None:
        self._metrics = metrics or AuthenticationMetrics()
        self._source = source
        self._clock = clock
        self._audiences = audiences
        self._anonymous = anonymous
        self._algorithms = algorithms
        self._issuers: dict[str, JwtIssuer] = {}
        self._stopping = BackgroundTasks[None]()
        self._tree = tree
        self._make_issuers()
        self._configure_anonymous()

    def start(self, client: Client) -> None:
        """Fetch the keys of all issuers in the background."""
        self._fetch_keys()

    def _fetch_keys(self) -> None:
        for issuer in self._issuers.values():
            issuer.keys.start()

    def reload(self) -> None:
        """Read the configuration again, and use it if it has changed. One that changes `anonymous`
        is refused."""
        if self._source is None or not self._source.file.has_changed():
            return
        try:
            tree = self._source.decode(self._source.file.data)
            if tree.get("anonymous") != self._tree.get("anonymous"):
                detail = "changed from initial configuration file"
                raise BadConfiguration(str(forbidden(Path("anonymous"), detail)))
        except BadConfiguration as error:
            self._source.file.refuse(error)
            return
        if tree != self._tree:
            replaced, self._tree = self._issuers, tree
            self._make_issuers()
            self._fetch_keys()
            for issuer in replaced.values():
                self._stopping.start(issuer.stop())
        self._source.file.accept()

    async def stop(self) -> None:
        """End fetches and close connections. Idempotent."""
        for issuer in self._issuers.values():
            await issuer.stop()
        await asyncio.gather(*self._stopping)

    def _make_issuers(self) -> None:
        self._issuers = {
            tree["issuer"]["url"]: JwtIssuer(tree, self._clock, self._algorithms, self._metrics)
            for tree in self._tree.get("jwt") or ()
        }
        fetches = self._metrics.key_fetches
        for removed in fetches.keys() - {issuer.url_hash for issuer in self._issuers.values()}:
            del fetches[removed]

    def _configure_anonymous(self) -> None:
        anonymous = self._tree.get("anonymous")
        if anonymous is not None:
            conditions = anonymous.get("conditions")
            paths = (
                frozenset(condition.get("path") or "" for condition in conditions)
                if conditions
                else None
            )
            self._anonymous.configure(enabled=anonymous.get("enabled") or False, paths=paths)

    async def authenticate_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> TokenIdentity | None:
        """Return the identity; see TokenAuthenticator. The user is one of this API, whatever the
        audiences that the issuer knows."""
        valid = shared_audiences(audiences or self._audiences, self._audiences)
        parsed = parse_token(token)
        issuer = self._issuers.get(parsed.issuer) if parsed is not None else None
        if parsed is None or issuer is None or not valid:
            return None
        return TokenIdentity(user=await issuer.user(parsed), audiences=valid)
