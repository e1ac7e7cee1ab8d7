"""Reads and verifies JSON Web Tokens; the only module that calls PyJWT to verify.

A key has a list of algorithms, and a token must be signed with one of them: `none` and HMAC are
in no list. As
with go-jose, a token with a duplicate member or a `crit` header is invalid. PyJWT is imported with
the first token. Mirrors github.com/go-jose/go-jose/jwt.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Protocol

from msgspec import Struct

from kapiserver.apiserver.authentication.authenticator import InvalidCredentials

ALGORITHMS = (
    "ES256", "ES384", "ES512", "PS256", "PS384", "PS512", "RS256", "RS384", "RS512",
)  # fmt: skip
"""The algorithms that an issuer may use; all have public keys."""
MAX_BYTES = 64 << 10
"""The largest token."""
LEEWAY_SECONDS = 60
"""Tolerated between the clocks of issuer and verifier."""


class VerifyingKey(Protocol):
    """A public key of an issuer: `id` is the `kid` of its tokens, `algorithms` those with which it
    may be used, `public` a key of the cryptography library."""

    @property
    def id(self) -> str: ...
    @property
    def algorithms(self) -> Collection[str]: ...
    @property
    def public(self) -> Any: ...


class UnverifiedToken(Struct, frozen=True, kw_only=True):
    """A well-formed token; its claims are not to be trusted before `verify` returns."""

    text: str
    header: Mapping[str, Any]
    claims: Mapping[str, Any]

    @property
    def issuer(self) -> str:
        """The claim `iss`, or ""."""
        issuer = self.claims.get("iss")
        return issuer if isinstance(issuer, str) else ""

    @property
    def key_id(self) -> str:
        """The `kid` of the header, or ""."""
        key_id = self.header.get("kid")
        return key_id if isinstance(key_id, str) else ""

    @property
    def audiences(self) -> frozenset[str]:
        """The claim `aud`, as a set."""
        return audiences_of(self.claims)

    def verify(self, keys: Iterable[VerifyingKey]) -> None:
        """Return if one of the keys signed the token. A token with a `kid` needs the key of that
        name. Raises InvalidCredentials."""
        import jwt

        algorithm = str(self.header.get("alg"))
        for key in keys:
            if algorithm not in key.algorithms or self.key_id not in ("", key.id):
                continue
            with contextlib.suppress(jwt.PyJWTError, ValueError, TypeError):
                jwt.PyJWS().decode(self.text, key.public, algorithms=[algorithm])
                return
        raise InvalidCredentials("failed to verify signature")

    def check_time(self, now: float, *, expiry_leeway: float = LEEWAY_SECONDS) -> None:
        """Return if the token has begun and has not expired. Raises InvalidCredentials, also for a
        token without expiry."""
        expiry, start = self.claims.get("exp"), self.claims.get("nbf", 0)
        if not isinstance(expiry, int | float) or not isinstance(start, int | float):
            raise InvalidCredentials("the token has no valid exp or nbf claim")
        if now > expiry + expiry_leeway:
            raise InvalidCredentials("token has expired")
        if now < start - LEEWAY_SECONDS:
            raise InvalidCredentials("token is not valid yet")


def parse_token(text: str) -> UnverifiedToken | None:
    """Return a token, or None for a text that is not a JSON Web Token. Raises InvalidCredentials
    for one that no library should accept."""
    if len(text) > MAX_BYTES or text.count(".") != 2 or not text.isascii():
        return None
    head, payload, signature = text.split(".")
    header, claims = _parse(head), _parse(payload)
    if header is None or claims is None:
        return None
    if "crit" in header:
        raise InvalidCredentials("unsupported crit header")
    if _decode(signature) is None:
        raise InvalidCredentials("the signature of the token is not base64url")
    return UnverifiedToken(text=text, header=header, claims=claims)


def audiences_of(claims: Mapping[str, Any]) -> frozenset[str]:
    """Return the audiences of a token."""
    audience = claims.get("aud") or ()
    if isinstance(audience, str):
        return frozenset((audience,))
    if not isinstance(audience, list | tuple):
        return frozenset()
    return frozenset(name for name in audience if isinstance(name, str))


def _parse(segment: str) -> dict[str, Any] | None:
    data = _decode(segment)
    if data is None:
        return None
    try:
        value = json.loads(data, object_pairs_hook=_members, parse_constant=_reject_constant)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _decode(segment: str) -> bytes | None:
    """Return the bytes of a segment; None unless it is their only encoding."""
    try:
        data = base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except (ValueError, binascii.Error):
        data = b""
    return data if base64.urlsafe_b64encode(data).rstrip(b"=").decode() == segment else None


def _reject_constant(name: str) -> None:
    raise InvalidCredentials(f"{name} is not JSON")


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidCredentials("duplicate member of the token")
    return members
