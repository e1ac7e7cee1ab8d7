"""Authenticates the tokens in Secrets of type `kubernetes.io/service-account-token`.

They have no expiry: one is valid while its account and its Secret exist and the Secret holds it.
The Secret's label `kubernetes.io/legacy-token-last-used` records the day of the last use. Mirrors
pkg/serviceaccount/legacy.go of kube-apiserver.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime

from kapiserver.api.accessors import is_terminating, labels_of
from kapiserver.api.resource_client import Client, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.authenticator import bearer_token
from kapiserver.apiserver.authentication.service_account import ServiceAccountAuthenticator
from kapiserver.apiserver.authentication.service_account_tokens import (
    LEGACY_ACCOUNT_NAME,
    LEGACY_ACCOUNT_UID,
    LEGACY_NAMESPACE,
    LEGACY_SECRET_NAME,
    ServiceAccountTokens,
)
from kapiserver.apiserver.authentication.user import (
    SERVICE_ACCOUNT_PREFIX,
    User,
    service_account_user,
)
from kapiserver.apiserver.request import Request
from kapiserver.storage.clock import Clock
from kapiserver.storage.entry import ObjectKey
from kapiserver.storage.store_registry import StoreRegistry

LAST_USED = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
AUDIT_ANNOTATION = "authentication.k8s.io/legacy-token"

_log = logging.getLogger(__name__)


class LegacyServiceAccountAuthenticator(ServiceAccountAuthenticator):
    """Recognizes tokens that `ServiceAccountTokens.sign_legacy` signed; they are valid for the
    audiences of this server.

    client  returns the client that labels Secrets
    """

    def __init__(
        self,
        tokens: ServiceAccountTokens,
        stores: StoreRegistry,
        clock: Clock,
        *,
        client: Callable[[], Client],
    ) -> None:
        super().__init__(tokens, stores, clock)
        self._client = client

    def authenticate(self, request: Request) -> Awaitable[User | None] | None:
        """Return an awaitable of the user of the request's token; None without a token."""
        token = bearer_token(request)
        return self._user_of_request(request, token) if token else None

    async def _user_of_request(self, request: Request, token: str) -> User | None:
        user = await self.user_of(token)
        if user is not None:
            request.annotations[AUDIT_ANNOTATION] = user.name
        return user

    def _audiences_of(self, token: str, audiences: Sequence[str]) -> Collection[str]:
        return self._tokens.audiences

    async def user_of(self, token: str, audiences: Sequence[str] = ()) -> User | None:
        """Return the user of a token, or None if it is invalid, or its account or Secret no longer
        exists."""
        if audiences and not set(audiences) & set(self._tokens.audiences):
            return None
        claims = self._tokens.verify_legacy(token)
        if claims is None:
            return None
        names = [
            claims.get(name)
            for name in (
                LEGACY_NAMESPACE,
                LEGACY_ACCOUNT_NAME,
                LEGACY_ACCOUNT_UID,
                LEGACY_SECRET_NAME,
            )
        ]
        if not all(isinstance(name, str) and name for name in names):
            return None
        namespace, name, uid, secret_name = map(str, names)
        if claims.get("sub") != f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}":
            return None
        secret = await self._find("secrets", ObjectKey(namespace, secret_name))
        if secret is None or is_terminating(secret) or _token_in(secret) != token:
            return None
        account = await self._find("serviceaccounts", ObjectKey(namespace, name), uid)
        if account is None or is_terminating(account):
            return None
        await self._record_use(secret)
        if labels_of(secret).get(INVALID_SINCE):
            return None
        return service_account_user(namespace, name, uid=uid)

    async def _record_use(self, secret: Tree) -> None:
        """Label the Secret with the current day, at most once a day."""
        today = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%d")
        if labels_of(secret).get(LAST_USED) == today:
            return
        metadata = secret["metadata"]
        secrets = self._client().resource("v1", "secrets", namespace=metadata["namespace"])
        try:
            await secrets.patch(metadata["name"], {"metadata": {"labels": {LAST_USED: today}}})
        except StatusError as error:  # the token is valid nevertheless
            _log.info("cannot label a service account token: %s", error)


def _token_in(secret: Tree) -> str:
    return base64.b64decode((secret.get("data") or {}).get("token") or "").decode()
