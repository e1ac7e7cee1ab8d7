"""The keys of an OpenID Connect issuer: discovered, fetched, cached and rotated.

Discovery is tried until it succeeds, at most once in DISCOVERY_SECONDS. If no key verifies a token,
the keys are fetched again, unless the headers of the last response say that they are still fresh.
Requests that wait for the same fetch share it, for WAIT_SECONDS at most. An issuer that does not
answer fails its own tokens only. Mirrors the remoteKeySet of github.com/coreos/go-oidc 2.5, and
github.com/pquerna/cachecontrol.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextvars import Context
from email.utils import parsedate_to_datetime
from typing import Any

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.authenticator import InvalidCredentials
from kapiserver.apiserver.authentication.jwt.token import ALGORITHMS, UnverifiedToken
from kapiserver.apiserver.webhooks.http_client import (
    Address,
    Call,
    HttpClient,
    RawResponse,
    WebhookFailed,
    tls_context,
)
from kapiserver.codecs.errors import CodecError
from kapiserver.codecs.json import decode_value
from kapiserver.metrics import Reloads
from kapiserver.storage.concurrency.clock import Clock

WELL_KNOWN = "/.well-known/openid-configuration"
DISCOVERY_SECONDS = 10.0
"""The shortest time between two attempts of discovery."""
EXPIRY_SECONDS = 30.0
"""How long before they expire keys may be fetched again."""
MAX_HEURISTIC_SECONDS = 86400.0
"""The longest time that keys with nothing but a Last-Modified header are fresh."""
KEEP_SECONDS = 3600.0
"""After this time, keys are fetched again even if no token names a new key."""
WAIT_SECONDS = 5.0
"""The longest time that a request waits for a fetch."""
FETCH_SECONDS = 10.0
"""The limit of each of the two HTTP requests of a fetch."""
MAX_BYTES = 1 << 20
MAX_KEYS = 64
_TYPES = {
    "RSA": frozenset(name for name in ALGORITHMS if name[:2] in ("RS", "PS")),
    "P-256": frozenset(("ES256",)),
    "P-384": frozenset(("ES384",)),
    "P-521": frozenset(("ES512",)),
}
"""The algorithms of a key without `alg`, by its type or curve."""

_log = logging.getLogger(__name__)


class IssuerKey(Struct, frozen=True, kw_only=True):
    """A public key of an issuer."""

    id: str
    algorithms: frozenset[str]
    public: Any


class IssuerKeys:
    """The keys of one issuer.

    issuer      an Issuer of an AuthenticationConfiguration
    algorithms  the algorithms that its tokens may use
    fetches     counts the fetches of the keys
    """

    def __init__(
        self,
        issuer: Tree,
        clock: Clock,
        algorithms: Sequence[str] = ALGORITHMS,
        fetches: Reloads | None = None,
    ) -> None:
        self._issuer = issuer
        self._clock = clock
        self._algorithms = frozenset(algorithms)
        self._fetches = fetches or Reloads()
        self._client = HttpClient()
        self._keys: Sequence[IssuerKey] = ()
        self._key_set_url = ""
        self._tried_at = float("-inf")
        self._fresh_until = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Fetch the keys in the background."""
        self._fetch()

    async def stop(self) -> None:
        """End a fetch and close the connections. Idempotent."""
        if self._fetching is not None:
            self._fetching.cancel()
            await asyncio.wait([self._fetching])
        await self._client.close()

    async def verify(self, token: UnverifiedToken) -> None:
        """Return if one of the keys signed the token. If none did, and the keys may have changed,
        waits for a fetch and tries again: an issuer may change its key and keep the `kid`, or use
        none. Raises InvalidCredentials."""
        if self._clock.now() > self._tried_at + KEEP_SECONDS:
            self._fetch()
        try:
            token.verify(self._keys)
        except InvalidCredentials:
            if self._clock.now() + EXPIRY_SECONDS <= self._fresh_until:
                raise
            fetching = self._fetch()
            if fetching is not None:
                await asyncio.wait([fetching], timeout=WAIT_SECONDS)
            if not self._keys:
                raise InvalidCredentials("oidc: authenticator not initialized") from None
            token.verify(self._keys)

    def _fetch(self) -> asyncio.Task[None] | None:
        """Start a fetch, unless one runs or the last discovery failed just now."""
        now = self._clock.now()
        if self._fetching is not None:
            return self._fetching
        if not self._key_set_url and now < self._tried_at + DISCOVERY_SECONDS:
            return None
        self._tried_at = now
        self._fetching = asyncio.get_running_loop().create_task(
            self._run_fetch(),
            context=Context(),  # not that of the request that starts it
        )
        return self._fetching

    async def _run_fetch(self) -> None:
        url = self._issuer["url"]
        try:
            if not self._key_set_url:
                self._key_set_url = await self._discover()
            response = await self._get(self._key_set_url)
            self._keys = tuple(_read_keys(_document(self._key_set_url, response), self._algorithms))
            now = self._clock.now()
            self._fresh_until = now + _fresh_seconds(response.headers, now)
            self._fetches.succeed(now, f"sha256:{hashlib.sha256(response.body).hexdigest()}")
            _log.info("fetched %d keys of the issuer %s", len(self._keys), url)
        except WebhookFailed as error:
            if self._key_set_url:
                self._fetches.fail(self._clock.now())
            _log.error("oidc authenticator: cannot fetch the keys of %s: %s", url, error)
        finally:
            self._fetching = None

    async def _discover(self) -> str:
        """Return the URL of the keys. Raises WebhookFailed."""
        url = self._issuer["url"]
        address = self._issuer.get("discoveryURL") or f"{url.removesuffix('/')}{WELL_KNOWN}"
        document = _document(address, await self._get(address))
        if document.get("issuer") != url:
            raise WebhookFailed(
                "oidc: issuer did not match the issuer returned by provider, expected "
                f'"{url}" got "{document.get("issuer")}"'
            )
        key_set_url = document.get("jwks_uri")
        if not isinstance(key_set_url, str) or not key_set_url.startswith("https://"):
            raise WebhookFailed("oidc: the jwks_uri is not an HTTPS URL")
        return key_set_url

    async def _get(self, url: str) -> RawResponse:
        # No Accept: kube-apiserver serves its key set as application/jwk-set+json alone.
        headers = {"Accept-Encoding": "identity"}
        call = Call(method="GET", headers=headers, timeout=FETCH_SECONDS, max_bytes=MAX_BYTES)
        context = tls_context(self._issuer.get("certificateAuthority") or "")
        return await self._client.exchange(Address(url=url), context, call)


def _document(url: str, response: RawResponse) -> Tree:
    """Return the JSON object of a response. Raises WebhookFailed."""
    try:
        document = decode_value(response.body)
    except CodecError as error:
        raise WebhookFailed(f"{url}: {error}") from None
    if not isinstance(document, dict):
        raise WebhookFailed(f"{url}: not a JSON object")
    return document


def _fresh_seconds(headers: Mapping[str, str], now: float) -> float:
    """Return how long a response is fresh for a shared cache (RFC 9111); 0 if its headers do not
    say so."""
    directives = {
        name.strip().lower(): value.strip().strip('"')
        for name, _, value in (
            part.partition("=") for part in headers.get("cache-control", "").split(",")
        )
    }
    for name in ("s-maxage", "max-age"):
        if name in directives:
            text = directives[name]
            return float(text) if text.isascii() and text.isdigit() and len(text) < 10 else 0.0
    date = _time_of(headers.get("date")) or now
    expires, modified = _time_of(headers.get("expires")), _time_of(headers.get("last-modified"))
    if expires is not None:
        return expires - date
    if modified is not None:
        return min((now - modified) / 10, MAX_HEURISTIC_SECONDS)
    return 0.0


def _time_of(text: str | None) -> float | None:
    """Return the time of a header in seconds since 1970, or None."""
    try:
        return parsedate_to_datetime(text).timestamp() if text else None
    except (ValueError, OverflowError):
        return None


def _read_keys(key_set: Tree, allowed: frozenset[str]) -> Iterator[IssuerKey]:
    """Yield the keys of a JSON Web Key Set that may verify signatures; the others are ignored."""
    import jwt

    keys = key_set.get("keys")
    for jwk in keys[:MAX_KEYS] if isinstance(keys, list) else ():
        if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig" or "d" in jwk:
            continue
        algorithms = allowed & _TYPES.get(str(jwk.get("crv", jwk.get("kty"))), frozenset())
        if "alg" in jwk:
            algorithms = algorithms & {str(jwk["alg"])}
        if not algorithms:
            continue
        try:
            public = jwt.PyJWK(jwk, algorithm=min(algorithms)).key
        except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:
            _log.warning("a key of a JSON Web Key Set is ignored: %s", error)
            continue
        key_id = jwk.get("kid")
        yield IssuerKey(
            id=key_id if isinstance(key_id, str) else "", algorithms=algorithms, public=public
        )
