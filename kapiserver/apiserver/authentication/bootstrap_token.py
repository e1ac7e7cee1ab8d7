"""Authenticates bootstrap tokens: Secrets of type `bootstrap.kubernetes.io/token` in kube-system.

Kubelets that join a cluster have them. The Secret `bootstrap-token-ID` has the secret half of the
token `ID.SECRET`, its expiry, its usages and groups. Mirrors
plugin/pkg/auth/authenticator/token/bootstrap of kube-apiserver and k8s.io/cluster-bootstrap.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hmac
import re
from collections.abc import Sequence
from datetime import UTC, datetime

from kapiserver.api.accessors import is_terminating
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.authenticator import (
    InvalidCredentials,
    TokenIdentity,
    shared_audiences,
)
from kapiserver.apiserver.user import AUTHENTICATED, User
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.store_registry import StoreRegistry

NAMESPACE = "kube-system"
SECRET_TYPE = "bootstrap.kubernetes.io/token"
SECRET_PREFIX = "bootstrap-token-"
DEFAULT_GROUP = "system:bootstrappers"
EXPIRATION = "expiration"
_USER_PREFIX = "system:bootstrap:"
_TOKEN = re.compile(r"([a-z0-9]{6})\.([a-z0-9]{16})")
_GROUP = re.compile(r"system:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]")
_UTC_OFFSET = re.compile(r"(?:Z|[+-]\d\d:\d\d)\Z")


class BootstrapTokenAuthenticator:
    """Recognizes the tokens of Secrets; they are valid for the audiences of this server."""

    def __init__(self, stores: StoreRegistry, clock: Clock, audiences: Sequence[str]) -> None:
        self._stores = stores
        self._clock = clock
        self._audiences = audiences

    async def authenticate_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> TokenIdentity | None:
        """Return the identity; see TokenAuthenticator."""
        match = _TOKEN.fullmatch(token)
        valid = shared_audiences(audiences or self._audiences, self._audiences)
        if match is None or not valid:
            return None
        secret = await self._secret(f"{SECRET_PREFIX}{match[1]}")
        if secret is None:
            return None
        return TokenIdentity(user=self._user(secret, match[1], match[2]), audiences=valid)

    async def _secret(self, name: str) -> Tree | None:
        """Return a Secret of the watch cache; None if there is none or it is no token's."""
        store = self._stores.by_name(CORE, "secrets")
        with contextlib.suppress(NotFound):
            entry = await store.get(ObjectKey(NAMESPACE, name), resource_version="0")
            secret = entry.tree()
            if secret.get("type") == SECRET_TYPE and not is_terminating(secret):
                return secret
        return None

    def _user(self, secret: Tree, token_id: str, token_secret: str) -> User:
        """Return the user of the token. Raises InvalidCredentials."""
        if not hmac.compare_digest(secret_text(secret, "token-secret"), token_secret):
            raise InvalidCredentials("the secret of the bootstrap token is wrong")
        if secret_text(secret, "token-id") != token_id:
            raise InvalidCredentials("the Secret has another bootstrap token id")
        expiry = expiry_of(secret)
        if expiry is not None and expiry <= self._clock.now():
            raise InvalidCredentials("the bootstrap token has expired")
        if secret_text(secret, "usage-bootstrap-authentication") != "true":
            raise InvalidCredentials("the bootstrap token is not for authentication")
        return User(name=f"{_USER_PREFIX}{token_id}", groups=(*_groups(secret), AUTHENTICATED))


def expiry_of(secret: Tree) -> float | None:
    """Return when a bootstrap token expires, in seconds since the epoch; None if it does not. An
    expiry that is not a time of RFC 3339 is 0: the token has expired."""
    text = secret_text(secret, EXPIRATION)
    if not text:
        return None
    if "T" not in text or _UTC_OFFSET.search(text) is None:
        return 0.0
    try:
        return datetime.fromisoformat(text).astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def secret_text(secret: Tree, name: str) -> str:
    """Return a value of a Secret's data as a text; "" if it is missing or not ASCII."""
    try:
        return base64.b64decode((secret.get("data") or {}).get(name) or "").decode("ascii")
    except (binascii.Error, ValueError):
        return ""


def _groups(secret: Tree) -> Sequence[str]:
    groups = {DEFAULT_GROUP}
    text = secret_text(secret, "auth-extra-groups")
    for group in text.split(",") if text else ():
        if _GROUP.fullmatch(group) is None:
            raise InvalidCredentials(f"the bootstrap group {group!r} is invalid")
        groups.add(group)
    return sorted(groups)
