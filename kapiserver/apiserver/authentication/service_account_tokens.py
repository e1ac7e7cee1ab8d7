"""Signs and verifies service account tokens: JSON Web Tokens, as TokenRequest issues them, and
the legacy ones of Secrets.

Knows no store: a valid token may belong to an account that no longer exists (`service_account.py`).
Keys and the JWT library are loaded with the first token. Mirrors pkg/serviceaccount of
kube-apiserver.
"""

from __future__ import annotations

import contextlib
import functools
import uuid
from collections.abc import Sequence
from typing import Any

from kapiserver.api.accessors import name_of, namespace_of, uid_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.service_account_keys import (
    Key,
    create_key_file,
    generate_key,
    parse_key,
    read_key,
)
from kapiserver.apiserver.authentication.user import SERVICE_ACCOUNT_PREFIX
from kapiserver.apiserver.config import Config
from kapiserver.storage.clock import Clock

KEY_FILE = "sa.key"
PRIVATE_CLAIMS = "kubernetes.io"
"""The claim that names the namespace, the account and the objects that the token is bound to."""
LEGACY_ISSUER = "kubernetes/serviceaccount"
LEGACY_NAMESPACE = "kubernetes.io/serviceaccount/namespace"
LEGACY_SECRET_NAME = "kubernetes.io/serviceaccount/secret.name"
LEGACY_ACCOUNT_NAME = "kubernetes.io/serviceaccount/service-account.name"
LEGACY_ACCOUNT_UID = "kubernetes.io/serviceaccount/service-account.uid"
_LEEWAY_SECONDS = 60
"""Tolerated between the clocks of issuer and verifier."""
_NO_CHECKS: Any = {
    "verify_exp": False, "verify_nbf": False, "verify_iat": False, "verify_sub": False,
    "verify_jti": False, "verify_aud": False,
}  # fmt: skip


class ServiceAccountTokens:
    """Signs and verifies the tokens of one issuer."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock

    @property
    def issuer(self) -> str:
        """The issuer that new tokens name."""
        return self._config.service_account_issuer[0]

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of this server; a token needs one of them to authenticate a request."""
        return self._config.api_audiences or self._config.service_account_issuer

    @functools.cached_property
    def keys(self) -> tuple[Key, ...]:
        """All keys that verify tokens, the one that signs first. Raises OSError, ValueError for a
        file without a key."""
        config = self._config
        path = config.service_account_signing_key_file
        if path is None and config.cert_dir is not None and not config.service_account_key_file:
            path = config.cert_dir / KEY_FILE
            if not path.exists():
                create_key_file(path)
        signing_key = parse_key(generate_key()) if path is None else read_key(path)
        keys = [signing_key, *map(read_key, config.service_account_key_file)]
        return tuple({key.id: key for key in reversed(keys)}.values())[::-1]

    def sign(
        self,
        account: Tree,
        bound_objects: Sequence[tuple[str, Tree]],
        audiences: Sequence[str],
        seconds: int,
    ) -> str:
        """Return a token of an account. It becomes invalid with the bound objects, which are given
        as pairs such as ("pod", tree)."""
        now = int(self._clock.now())
        private: Tree = {"namespace": namespace_of(account)}
        for kind, tree in sorted(bound_objects, key=lambda pair: pair[0]):
            private[kind] = {"name": name_of(tree), "uid": uid_of(tree)}
        private["serviceaccount"] = {"name": name_of(account), "uid": uid_of(account)}
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": str(uuid.uuid4()),
            PRIVATE_CLAIMS: dict(sorted(private.items())),
            "nbf": now,
            "sub": f"{SERVICE_ACCOUNT_PREFIX}{namespace_of(account)}:{name_of(account)}",
        }
        return self._sign(claims)

    def sign_legacy(self, account: Tree, secret: Tree) -> str:
        """Return the token of an account that a Secret of type
        `kubernetes.io/service-account-token` holds. It has no expiry."""
        claims = {
            "iss": LEGACY_ISSUER,
            LEGACY_NAMESPACE: namespace_of(account),
            LEGACY_SECRET_NAME: name_of(secret),
            LEGACY_ACCOUNT_NAME: name_of(account),
            LEGACY_ACCOUNT_UID: uid_of(account),
            "sub": f"{SERVICE_ACCOUNT_PREFIX}{namespace_of(account)}:{name_of(account)}",
        }
        return self._sign(claims)

    def _sign(self, claims: Tree) -> str:
        import jwt

        key = self.keys[0]
        # Without `typ`, like the tokens of kube-apiserver.
        headers = {"alg": key.algorithm, "kid": key.id, "typ": None}
        return jwt.encode(claims, key.private, algorithm=key.algorithm, headers=headers)

    def verify(self, token: str, audiences: Sequence[str] = ()) -> dict[str, Any] | None:
        """Return the claims of a token, or None if its signature, issuer, time or audience is
        wrong. Without `audiences` those of this server count."""
        issuers = self._config.service_account_issuer
        claims = self._decode(token, issuers, audiences or self.audiences)
        return claims if claims is not None and self._is_current(claims) else None

    def verify_legacy(self, token: str) -> dict[str, Any] | None:
        """Return the claims of a token of `sign_legacy`, or None if its signature or issuer is
        wrong."""
        return self._decode(token, (LEGACY_ISSUER,), None)

    def _decode(
        self, token: str, issuers: Sequence[str], audiences: Sequence[str] | None
    ) -> dict[str, Any] | None:
        if token.count(".") != 2 or not token.isascii():
            return None
        import jwt

        for key in self.keys:
            with contextlib.suppress(jwt.PyJWTError):
                claims: dict[str, Any] = jwt.decode(
                    token,
                    key.public,
                    algorithms=[key.algorithm],
                    issuer=list(issuers),
                    options=_NO_CHECKS,
                )
                return claims if _is_for(claims, audiences) else None
        return None

    def _is_current(self, claims: dict[str, Any]) -> bool:
        # By the server's clock, which tests move; the JWT library would use the system's.
        now = self._clock.now()
        expiry, start = claims.get("exp"), claims.get("nbf", 0)
        if not isinstance(expiry, int | float) or not isinstance(start, int | float):
            return False
        return start - _LEEWAY_SECONDS <= now <= expiry + _LEEWAY_SECONDS


def _is_for(claims: dict[str, Any], audiences: Sequence[str] | None) -> bool:
    """Report whether a token is for one of the audiences; None is for a token without any. The
    JWT library compares each with each."""
    held = audiences_of(claims)
    return not claims.get("aud") if audiences is None else not held.isdisjoint(audiences)


def audiences_of(claims: dict[str, Any]) -> frozenset[str]:
    """Return the audiences of a token."""
    held = claims.get("aud") or ()
    return frozenset((held,) if isinstance(held, str) else held)
