"""Authenticates the tokens in Secrets of type `kubernetes.io/service-account-token`.

They have no expiry: one is valid while its account and its Secret exist and the Secret holds it.
The Secret's label `kubernetes.io/legacy-token-last-used` records the day of the last use. Mirrors
pkg/serviceaccount/legacy.go of kube-apiserver.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Sequence
from datetime import UTC, datetime

from kapiserver.api.accessors import is_terminating, labels_of
from kapiserver.api.resource_client import Client, StatusError
from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.authenticator import (
    InvalidCredentials,
    ManagedAuthenticator,
    TokenIdentity,
    shared_audiences,
)
from kapiserver.apiserver.authentication.jwt.token import UnverifiedToken
from kapiserver.apiserver.authentication.metrics import AuthenticationMetrics
from kapiserver.apiserver.authentication.service_accounts.authenticator import BoundObjects
from kapiserver.apiserver.authentication.service_accounts.tokens import (
    LEGACY_ACCOUNT_NAME,
    LEGACY_ACCOUNT_UID,
    LEGACY_ISSUER,
    LEGACY_NAMESPACE,
    LEGACY_SECRET_NAME,
    ServiceAccountTokens,
)
from kapiserver.apiserver.user import (
    SERVICE_ACCOUNT_PREFIX,
    User,
    service_account_user,
)
from kapiserver.storage.cache.entry import ObjectKey
from kapiserver.storage.concurrency.clock import Clock
from kapiserver.storage.objects.store_registry import StoreRegistry

LAST_USED = "kubernetes.io/legacy-token-last-used"
INVALID_SINCE = "kubernetes.io/legacy-token-invalid-since"
AUDIT_ANNOTATION = "authentication.k8s.io/legacy-token"

_log = logging.getLogger(__name__)


class LegacyServiceAccountAuthenticator(ManagedAuthenticator):
    """Recognizes tokens that `ServiceAccountTokens.sign_legacy` signed; they are valid for the
    audiences of this server."""

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
        self._client: Client | None = None
        """Labels Secrets; None before the start."""

    def start(self, client: Client) -> None:
        """Label Secrets with this client."""
        self._client = client

    async def stop(self) -> None:
        """Label nothing more."""
        self._client = None

    async def authenticate_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> TokenIdentity | None:
        """Return the identity; see TokenAuthenticator."""
        verified = self._tokens.verify(token)
        if verified is None or verified.issuer != LEGACY_ISSUER or verified.claims.get("aud"):
            return None
        api_audiences = self._tokens.audiences
        valid = shared_audiences(audiences or api_audiences, api_audiences)
        if not valid:
            raise InvalidCredentials("token audiences are invalid for this server")
        user = await self._user(verified)
        self._metrics.account_tokens.add("legacy")
        return TokenIdentity(user=user, audiences=valid, annotations={AUDIT_ANNOTATION: user.name})

    async def _user(self, token: UnverifiedToken) -> User:
        values = [
            token.claims.get(name)
            for name in (
                LEGACY_NAMESPACE,
                LEGACY_ACCOUNT_NAME,
                LEGACY_ACCOUNT_UID,
                LEGACY_SECRET_NAME,
            )
        ]
        if not all(isinstance(value, str) and value for value in values):
            raise InvalidCredentials("service account claims are missing")
        namespace, name, uid, secret_name = map(str, values)
        if token.claims.get("sub") != f"{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}":
            raise InvalidCredentials("the subject is not the service account")
        secret = await self._objects.find("secrets", ObjectKey(namespace, secret_name))
        if secret is None or is_terminating(secret) or _token_in(secret) != token.text:
            raise InvalidCredentials("service account token has been invalidated")
        key = ObjectKey(namespace, name)
        account = await self._objects.find("serviceaccounts", key, uid)
        if account is None or is_terminating(account):
            raise InvalidCredentials(f"service account {namespace}/{name} has been deleted")
        await self._record_use(secret)
        is_automatic = any(
            reference.get("name") == secret_name for reference in account.get("secrets") or ()
        )
        if labels_of(secret).get(INVALID_SINCE):
            if is_automatic:
                self._metrics.legacy_uses.add("invalid")
            raise InvalidCredentials("the token has been marked as invalid")
        self._metrics.legacy_uses.add("auto" if is_automatic else "manual")
        return service_account_user(namespace, name, uid=uid)

    async def _record_use(self, secret: Tree) -> None:
        """Label the Secret with the current day, at most once a day."""
        today = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y-%m-%d")
        if self._client is None or labels_of(secret).get(LAST_USED) == today:
            return
        metadata = secret["metadata"]
        secrets = self._client.resource("v1", "secrets", namespace=metadata["namespace"])
        try:
            await secrets.patch(metadata["name"], {"metadata": {"labels": {LAST_USED: today}}})
        except StatusError as error:  # the token is valid nevertheless
            _log.info("cannot label a service account token: %s", error)


def _token_in(secret: Tree) -> str:
    return base64.b64decode((secret.get("data") or {}).get("token") or "").decode()
