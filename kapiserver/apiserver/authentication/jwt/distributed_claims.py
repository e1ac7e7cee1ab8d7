"""Fetches the groups of a token that has them as a distributed claim.

Such a token names an endpoint of its issuer in `_claim_sources`, which returns another signed token
with the claim (OpenID Connect Core 1.0, section 5.6.2). Mirrors claimResolver of
plugin/pkg/authenticator/token/oidc of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.jwt.keys import FETCH_SECONDS, IssuerKeys
from kapiserver.apiserver.authentication.jwt.token import MAX_BYTES, parse_token
from kapiserver.apiserver.webhooks.http_client import (
    Address,
    Call,
    HttpClient,
    WebhookFailed,
    tls_context,
)
from kapiserver.storage.concurrency.clock import Clock

MAX_CALLS = 10
"""The maximum number of requests to endpoints at a time, for the tokens of one issuer."""
MAX_ISSUERS = 16
"""The maximum number of issuers of claims whose keys are kept."""
_NAMES, _SOURCES = "_claim_names", "_claim_sources"


class DistributedClaims:
    """Resolves one claim of the tokens of an issuer.

    issuer      an Issuer of an AuthenticationConfiguration; its audiences and CA are those of the
                tokens with the claim, too
    claim       the name of the claim
    """

    def __init__(self, issuer: Tree, claim: str, clock: Clock, algorithms: Sequence[str]) -> None:
        self._issuer = issuer
        self._audiences = frozenset(issuer["audiences"])
        self._claim = claim
        self._clock = clock
        self._algorithms = algorithms
        self._client = HttpClient()
        self._calls = asyncio.Semaphore(MAX_CALLS)
        self._keys: OrderedDict[str, IssuerKeys] = OrderedDict()

    async def stop(self) -> None:
        """End fetches, also those that a request starts meanwhile, and close the connections.
        Idempotent."""
        while self._keys:
            _, keys = self._keys.popitem()
            await keys.stop()
        await self._client.close()

    async def expand(self, claims: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the claims with the distributed claim added, if there is one. Raises
        InvalidCredentials."""
        if self._claim in claims or _NAMES not in claims:
            return claims
        try:
            endpoint = self._endpoint(claims)
            if endpoint is None:
                return claims
            return {**claims, self._claim: await self._fetched(endpoint)}
        except (InvalidCredentials, WebhookFailed) as error:
            raise InvalidCredentials(
                f"oidc: could not expand distributed claims: {error}"
            ) from None

    def _endpoint(self, claims: Mapping[str, Any]) -> Tree | None:
        """Return the source of the claim; None if it has none, or one without an endpoint. Raises
        InvalidCredentials."""
        names, sources = claims[_NAMES], claims.get(_SOURCES)
        if not isinstance(names, dict):
            raise InvalidCredentials("oidc: error parsing distributed claim names")
        if sources is None:
            raise InvalidCredentials("oidc: no claim sources")
        if not isinstance(sources, dict):
            raise InvalidCredentials("oidc: could not parse claim sources")
        if self._claim not in names:
            return None
        source = names[self._claim]
        endpoint = sources.get(source) if isinstance(source, str) else None
        if endpoint is None:
            raise InvalidCredentials(
                f"id token _claim_names contained a source {source} missing in _claims_sources"
            )
        if not isinstance(endpoint, dict):
            raise InvalidCredentials("oidc: could not parse claim sources")
        return endpoint if endpoint.get("endpoint") else None

    async def _fetched(self, endpoint: Tree) -> Any:
        """Return the claim that an endpoint has. Raises InvalidCredentials, WebhookFailed."""
        url, access_token = endpoint["endpoint"], endpoint.get("access_token") or ""
        if not isinstance(url, str) or not url.startswith("https://"):
            raise InvalidCredentials(f"the endpoint of {self._claim} is not an HTTPS URL")
        if not isinstance(access_token, str) or not access_token.isprintable():
            raise InvalidCredentials("oidc: could not parse claim sources")
        headers = {"Accept-Encoding": "identity"}
        if access_token:
            headers["Authorization"] = f"Bearer {access_token}"
        call = Call(method="GET", headers=headers, timeout=FETCH_SECONDS, max_bytes=MAX_BYTES)
        context = tls_context(self._issuer.get("certificateAuthority") or "")
        async with self._calls:
            data = await self._client.send(Address(url=url), context, call)
        claims = await self._verified(data.decode("ascii", "replace").strip())
        if self._claim not in claims:
            raise InvalidCredentials(
                f'jwt returned by distributed claim endpoint "{url}" did not contain claim: '
                f"{self._claim}"
            )
        return claims[self._claim]

    async def _verified(self, text: str) -> Mapping[str, Any]:
        """Return the claims of a token that an endpoint returned. Raises InvalidCredentials."""
        token = parse_token(text)
        if token is None or not token.issuer.startswith("https://"):
            raise InvalidCredentials("the distributed claim is not in a JSON Web Token")
        if self._audiences.isdisjoint(token.audiences):
            raise InvalidCredentials("verify distributed claim token: audience not found")
        token.check_time(self._clock.now(), expiry_leeway=0)
        keys = await self._keys_of(token.issuer)
        await keys.verify(token)
        return token.claims

    async def _keys_of(self, url: str) -> IssuerKeys:
        keys = self._keys.get(url)
        if keys is not None:
            self._keys.move_to_end(url)
            return keys
        parts = {"url": url, "certificateAuthority": self._issuer.get("certificateAuthority")}
        keys = self._keys[url] = IssuerKeys(parts, self._clock, self._algorithms)
        if len(self._keys) > MAX_ISSUERS:
            _, oldest = self._keys.popitem(last=False)
            await oldest.stop()
        return keys
