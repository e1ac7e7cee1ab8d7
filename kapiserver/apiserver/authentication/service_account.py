"""Authenticates the tokens of service accounts, while the account and the bound objects exist.

Mirrors pkg/serviceaccount/claims.go of kube-apiserver.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Collection, Sequence
from datetime import datetime

from kapiserver.api.accessors import is_terminating, uid_of, value_at
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.authenticator import TokenIdentity, bearer_token
from kapiserver.apiserver.authentication.service_account_tokens import (
    PRIVATE_CLAIMS,
    ServiceAccountTokens,
    audiences_of,
)
from kapiserver.apiserver.authentication.user import (
    CREDENTIAL_ID,
    SERVICE_ACCOUNT_PREFIX,
    User,
    service_account_user,
)
from kapiserver.apiserver.request import Request
from kapiserver.storage.clock import Clock
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.errors import NotFound
from kapiserver.storage.store_registry import StoreRegistry

_EXTRA = "authentication.kubernetes.io"
_BOUND_RESOURCES = (("pod", "pods"), ("secret", "secrets"), ("node", "nodes"))
_GRACE_SECONDS = 60
"""A token stays valid so long after the deletion of its account or of an object it is bound to."""


class ServiceAccountAuthenticator:
    """Recognizes the tokens that `ServiceAccountTokens` signs."""

    def __init__(self, tokens: ServiceAccountTokens, stores: StoreRegistry, clock: Clock) -> None:
        self._tokens = tokens
        self._stores = stores
        self._clock = clock

    def authenticate(self, request: Request) -> Awaitable[User | None] | None:
        """Return an awaitable of the user of the request's token; None without a token."""
        token = bearer_token(request)
        return self.user_of(token) if token else None

    async def authenticate_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> TokenIdentity | None:
        """Return the identity; see TokenAuthenticator."""
        user = await self.user_of(token, audiences)
        if user is None:
            return None
        held = self._audiences_of(token, audiences)
        requested = dict.fromkeys(audiences or self._tokens.audiences)
        return TokenIdentity(user=user, audiences=[name for name in requested if name in held])

    def _audiences_of(self, token: str, audiences: Sequence[str]) -> Collection[str]:
        """Return the audiences of a token that is valid for one of the given ones."""
        return audiences_of(self._tokens.verify(token, audiences) or {})

    async def user_of(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Return the user of a token, or None if the token is invalid or its account, or an object
        that it is bound to, no longer exists."""
        claims = self._tokens.verify(token, audiences)
        if claims is None:
            return None
        private = claims.get(PRIVATE_CLAIMS)
        namespace, account = value_at(claims, PRIVATE_CLAIMS, "namespace"), None
        if isinstance(private, dict) and isinstance(namespace, str):
            account = private.get("serviceaccount")
        if not isinstance(private, dict) or not isinstance(account, dict):
            return None
        name, uid = str(account.get("name")), str(account.get("uid"))
        if claims.get("sub") != f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}":
            return None
        if not await self._exists("serviceaccounts", ObjectKey(namespace, name), uid):
            return None
        extra: dict[str, tuple[str, ...]] = {CREDENTIAL_ID: (f"JTI={claims.get('jti')}",)}
        for kind, resource in _BOUND_RESOURCES:
            reference = private.get(kind)
            if not isinstance(reference, dict):
                continue
            bound_name, bound_uid = str(reference.get("name")), str(reference.get("uid"))
            key = ObjectKey("" if kind == "node" else namespace, bound_name)
            # A token bound to a pod names its node too, but is not bound to the node.
            is_bound = kind != "node" or "pod" not in private
            if is_bound and not await self._exists(resource, key, bound_uid):
                return None
            if kind != "secret":
                extra[f"{_EXTRA}/{kind}-name"] = (bound_name,)
                extra[f"{_EXTRA}/{kind}-uid"] = (bound_uid,)
        return service_account_user(namespace, name, uid=uid, extra=extra)

    async def _exists(self, resource: str, key: ObjectKey, uid: str) -> bool:
        """Report whether the object of that uid exists, or was deleted only just now."""
        tree = await self._find(resource, key, uid)
        if tree is None:
            return False
        return not is_terminating(tree) or self._clock.now() < _deletion(tree) + _GRACE_SECONDS

    async def _find(self, resource: str, key: ObjectKey, uid: str = "") -> Tree | None:
        """Return the object, or None if it does not exist or has another uid."""
        store = self._stores.by_name(CORE, resource)
        for version in ("0", ""):  # the watch cache may be behind: read the store then
            with contextlib.suppress(NotFound):
                tree = (await store.get(key, resource_version=version)).tree()
                if uid in ("", uid_of(tree)):
                    return tree
        return None


def _deletion(tree: Tree) -> float:
    return datetime.fromisoformat(tree["metadata"]["deletionTimestamp"]).timestamp()
