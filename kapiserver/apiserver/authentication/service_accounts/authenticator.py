"""Authenticates the tokens of service accounts, while the account and the bound objects exist.

The objects are read from the watch cache, for each request: a deletion counts at once, and a valid
token costs no read of the store. Mirrors pkg/serviceaccount/claims.go of kube-apiserver.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from kapiserver.api.accessors import is_terminating, uid_of
from kapiserver.api.go_format import quote
from kapiserver.api.group import CORE
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.authenticator import (
    InvalidCredentials,
    TokenIdentity,
    shared_audiences,
)
from kapiserver.apiserver.authentication.jwt.token import UnverifiedToken
from kapiserver.apiserver.authentication.metrics import AuthenticationMetrics
from kapiserver.apiserver.authentication.service_accounts.tokens import (
    LEGACY_ISSUER,
    PRIVATE_CLAIMS,
    ServiceAccountTokens,
)
from kapiserver.apiserver.user import (
    CREDENTIAL_ID,
    SERVICE_ACCOUNT_PREFIX,
    User,
    service_account_user,
)
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.errors import NotFound
from kapiserver.storage.objects.store_registry import StoreRegistry

STALE_TOKEN = "authentication.k8s.io/stale-token"
"""The audit annotation of a token that is used after its original expiry."""
_EXTRA = "authentication.kubernetes.io"
_BOUND_RESOURCES = (("pod", "pods"), ("secret", "secrets"), ("node", "nodes"))
_GRACE_SECONDS = 60
"""How long a token stays valid after the deletion of its account or of an object it is bound to."""


class BoundObjects:
    """The accounts, Pods, Secrets and Nodes that tokens name."""

    def __init__(self, stores: StoreRegistry, clock: Clock) -> None:
        self._stores = stores
        self._clock = clock

    async def check(self, resource: str, key: ObjectKey, uid: str) -> None:
        """Return if the object with that uid exists, or was deleted only just now. Raises
        InvalidCredentials."""
        tree = await self.find(resource, key, uid)
        if tree is not None:
            deleted = _deletion(tree) if is_terminating(tree) else None
            if deleted is None or self._clock.now() < deleted + _GRACE_SECONDS:
                return
        raise InvalidCredentials("service account token has been invalidated")

    async def find(self, resource: str, key: ObjectKey, uid: str = "") -> Tree | None:
        """Return the object, or None if it does not exist or has another uid."""
        store = self._stores.by_name(CORE, resource)
        for version in ("0", ""):  # the watch cache may lack what another server created just now
            with contextlib.suppress(NotFound):
                tree = (await store.get(key, resource_version=version)).tree()
                if uid in ("", uid_of(tree)):
                    return tree
        return None


def _quoted(audiences: Sequence[str]) -> str:
    """Format audiences as Go's `%q` does."""
    return f"[{' '.join(map(quote, audiences))}]"


class ServiceAccountAuthenticator:
    """Recognizes the tokens that `ServiceAccountTokens.sign` signs."""

    def __init__(
        self,
        tokens: ServiceAccountTokens,
        stores: StoreRegistry,
        clock: Clock,
        metrics: AuthenticationMetrics | None = None,
    ) -> None:
        self._metrics = metrics or AuthenticationMetrics()
        self._tokens = tokens
        self._objects = BoundObjects(stores, clock)
        self._clock = clock

    async def authenticate_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> TokenIdentity | None:
        """Return the identity; see TokenAuthenticator."""
        verified = self._tokens.verify(token)
        if verified is None or verified.issuer == LEGACY_ISSUER:
            return None
        requested = audiences or self._tokens.audiences
        valid = shared_audiences(requested, verified.audiences)
        if not valid:
            raise InvalidCredentials(
                f"token audiences {_quoted(sorted(verified.audiences))} is invalid for the target "
                f"audiences {_quoted(requested)}"
            )
        verified.check_time(self._clock.now())
        private = verified.claims.get(PRIVATE_CLAIMS)
        if not isinstance(private, dict):
            raise InvalidCredentials("service account claims are missing")
        user = await self._user(verified, private)
        return TokenIdentity(user=user, audiences=valid, annotations=self._stale(user, private))

    async def _user(self, token: UnverifiedToken, private: Tree) -> User:
        namespace = private.get("namespace")
        name, uid = _reference(private.get("serviceaccount"))
        if not isinstance(namespace, str):
            raise InvalidCredentials("service account namespace is missing")
        if token.claims.get("sub") != f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}":
            raise InvalidCredentials("the subject is not the service account")
        await self._objects.check("serviceaccounts", ObjectKey(namespace, name), uid)
        extra: dict[str, tuple[str, ...]] = {}
        if isinstance(token.claims.get("jti"), str):
            extra[CREDENTIAL_ID] = (f"JTI={token.claims['jti']}",)
        for kind, resource in _BOUND_RESOURCES:
            if private.get(kind) is None:
                continue
            bound_name, bound_uid = _reference(private[kind])
            # A token bound to a pod names its node too, but is not bound to the node.
            if kind != "node" or "pod" not in private:
                key = ObjectKey("" if kind == "node" else namespace, bound_name)
                await self._objects.check(resource, key, bound_uid)
            if kind != "secret":
                extra[f"{_EXTRA}/{kind}-name"] = (bound_name,)
                if bound_uid:
                    extra[f"{_EXTRA}/{kind}-uid"] = (bound_uid,)
        return service_account_user(namespace, name, uid=uid, extra=extra)

    def _stale(self, user: User, private: Tree) -> Mapping[str, str]:
        threshold = private.get("warnafter")
        if not isinstance(threshold, int):
            return {}
        if self._clock.now() <= threshold:
            self._metrics.account_tokens.add("valid")
            return {}
        self._metrics.account_tokens.add("stale")
        seconds = int(self._clock.now()) - threshold
        return {
            STALE_TOKEN: f"subject: {user.name}, seconds after warning threshold: {seconds}",
        }


def _reference(value: Any) -> tuple[str, str]:
    """Return the name and the uid of an object that a token names. Raises InvalidCredentials."""
    if isinstance(value, dict):
        name, uid = value.get("name"), value.get("uid", "")
        if isinstance(name, str) and name and isinstance(uid, str):
            return name, uid
    raise InvalidCredentials("an object that the token names has no name")


def _deletion(tree: Tree) -> float:
    return datetime.fromisoformat(tree["metadata"]["deletionTimestamp"]).timestamp()
