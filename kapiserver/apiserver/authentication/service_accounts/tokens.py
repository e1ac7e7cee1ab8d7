"""Signs and verifies service account tokens: JSON Web Tokens, as TokenRequest issues them, and
the legacy ones of Secrets.

Knows no store: a valid token may belong to an account that no longer exists (`service_account.py`).
Keys and the JWT library are loaded with the first token. Mirrors pkg/serviceaccount of
kube-apiserver.
"""

from __future__ import annotations

import functools
import itertools
import uuid
import weakref
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kapiserver.api.accessors import name_of, namespace_of, uid_of
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.jwt.token import UnverifiedToken, parse_token
from kapiserver.apiserver.authentication.service_accounts.keys import (
    Key,
    create_key_file,
    generate_key,
    parse_key,
    read_key,
    read_keys,
)
from kapiserver.apiserver.config import Config
from kapiserver.apiserver.user import SERVICE_ACCOUNT_PREFIX
from kapiserver.storage.concurrency.clock import Clock

KEY_FILE = "sa.key"
PRIVATE_CLAIMS = "kubernetes.io"
"""The claim that names the namespace, the account and the objects that the token is bound to."""
LEGACY_ISSUER = "kubernetes/serviceaccount"
LEGACY_NAMESPACE = "kubernetes.io/serviceaccount/namespace"
LEGACY_SECRET_NAME = "kubernetes.io/serviceaccount/secret.name"
LEGACY_ACCOUNT_NAME = "kubernetes.io/serviceaccount/service-account.name"
LEGACY_ACCOUNT_UID = "kubernetes.io/serviceaccount/service-account.uid"
EXTENDED_SECONDS = 365 * 24 * 3600
"""The life of a token with an extended expiry."""
_MAX_VERIFIED = 4096
"""Tokens whose signature is not verified again; memory is a few kilobytes each."""


class IssuedToken(NamedTuple):
    """A signed token and its claim `jti`."""

    text: str
    id: str


class ServiceAccountTokens:
    """Signs and verifies the tokens of one issuer."""

    def __init__(self, config: Config, clock: Clock, signing_key: bytes | None = None) -> None:
        """Take the PEM of the key that signs; None means that of the settings."""
        self._config = config
        self._signing_key = signing_key
        self._clock = clock
        # Errors are not cached, so that junk cannot push valid tokens out.
        verify = weakref.WeakMethod(self._verify_signature)  # the cache is part of this object
        self._verified = functools.lru_cache(maxsize=_MAX_VERIFIED)(
            functools.partial(_call, verify)
        )

    @property
    def issuer(self) -> str:
        """The issuer that new tokens name."""
        return self._config.service_accounts.service_account_issuer[0]

    @property
    def audiences(self) -> tuple[str, ...]:
        """The audiences of this server; a token needs one of them to authenticate a request."""
        return (
            self._config.authentication.api_audiences
            or self._config.service_accounts.service_account_issuer
        )

    @functools.cached_property
    def keys(self) -> tuple[Key, ...]:
        """All keys that verify tokens, the one that signs first. Raises OSError, ValueError for a
        file without a key."""
        config = self._config
        if self._signing_key is not None:
            return (parse_key(self._signing_key),)
        path = config.service_accounts.service_account_signing_key_file
        if (
            path is None
            and config.certificates.cert_dir is not None
            and not config.service_accounts.service_account_key_file
        ):
            path = config.certificates.cert_dir / KEY_FILE
            if not path.exists():
                create_key_file(path)
        signing_key = parse_key(generate_key()) if path is None else read_key(path)
        verifying = (read_keys(file) for file in config.service_accounts.service_account_key_file)
        keys = [signing_key, *itertools.chain.from_iterable(verifying)]
        return tuple({key.id: key for key in reversed(keys)}.values())[::-1]

    def sign(
        self,
        account: Tree,
        bound_objects: Sequence[tuple[str, Tree]],
        audiences: Sequence[str],
        seconds: int,
        *,
        extend: bool = False,
    ) -> IssuedToken:
        """Return a token of an account. It becomes invalid with the bound objects, which are given
        as pairs such as ("pod", tree). An extended token lives for EXTENDED_SECONDS; its use after
        `seconds` is marked in the audit log."""
        now = int(self._clock.now())
        private: Tree = {"namespace": namespace_of(account)}
        if extend:
            private["warnafter"] = now + seconds
            seconds = EXTENDED_SECONDS
        for kind, tree in sorted(bound_objects, key=lambda pair: pair[0]):
            private[kind] = {"name": name_of(tree), "uid": uid_of(tree)}
        private["serviceaccount"] = {"name": name_of(account), "uid": uid_of(account)}
        identifier = str(uuid.uuid4())
        claims = {
            "aud": list(audiences),
            "exp": now + seconds,
            "iat": now,
            "iss": self.issuer,
            "jti": identifier,
            PRIVATE_CLAIMS: dict(sorted(private.items())),
            "nbf": now,
            "sub": f"{SERVICE_ACCOUNT_PREFIX}{namespace_of(account)}:{name_of(account)}",
        }
        return IssuedToken(self._sign(claims), identifier)

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

    def verify(self, text: str) -> UnverifiedToken | None:
        """Return a token of this server's issuers that one of the keys signed, or None for a text
        that is not such a token. Raises InvalidCredentials for a forged one. The caller checks time
        and audiences."""
        try:
            return self._verified(text)
        except _NotOurs:
            return None

    def _verify_signature(self, text: str) -> UnverifiedToken:
        token = parse_token(text)
        if token is None or token.issuer not in (
            *self._config.service_accounts.service_account_issuer,
            LEGACY_ISSUER,
        ):
            raise _NotOurs
        token.verify(self.keys)
        return token


def _call(verify: weakref.WeakMethod[Callable[..., UnverifiedToken]], text: str) -> UnverifiedToken:
    method = verify()
    assert method is not None
    return method(text)


class _NotOurs(Exception):
    """The text is not a token of this server's issuers."""
