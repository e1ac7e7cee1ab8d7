"""Authenticates bearer tokens with a webhook, which gets a TokenReview.

Mirrors plugin/pkg/authenticator/token/webhook of k8s.io/apiserver.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextvars import Context
from typing import Any

from msgspec import Struct

from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.authenticator import (
    InvalidCredentials,
    ManagedAuthenticator,
    TokenIdentity,
    shared_audiences,
)
from kapiserver.apiserver.authentication.jwt.token import MAX_BYTES
from kapiserver.apiserver.authentication.metrics import AuthenticationMetrics
from kapiserver.apiserver.authentication.token_cache import TokenCache
from kapiserver.apiserver.user import User, with_authenticated
from kapiserver.apiserver.webhooks.http_client import WebhookFailed
from kapiserver.apiserver.webhooks.kubeconfig import KubeconfigWebhook
from kapiserver.storage.concurrency.clock import Clock

MAX_CALLS = 1000
"""Calls in progress; more tokens are refused without a call."""
_ERROR_CHARACTERS = 1024
"""The longest reason that is kept."""

_log = logging.getLogger(__name__)


class _Verdict(Struct, frozen=True, kw_only=True):
    """The webhook's response for a token: its identity, or the error ("" if it names none)."""

    identity: TokenIdentity | None = None
    error: str = ""


class WebhookTokenAuthenticator(ManagedAuthenticator):
    """Recognizes the tokens that a webhook recognizes.

    version     the version of the TokenReview: v1 or v1beta1
    audiences   the audiences of this server; without any, tokens for all audiences are valid
    ttl         seconds for which a verdict is kept; 0 for none. A failed call is not kept.
    """

    def __init__(
        self,
        webhook: KubeconfigWebhook,
        clock: Clock,
        *,
        version: str,
        audiences: Sequence[str],
        ttl: float,
        metrics: AuthenticationMetrics | None = None,
    ) -> None:
        self._webhook = webhook
        self._clock = clock
        self._api_version = f"authentication.k8s.io/{version}"
        self._audiences = audiences
        self._ttl = ttl
        requests = metrics.token_cache if metrics is not None else None
        self._cache: TokenCache[_Verdict] = TokenCache(clock, requests=requests)
        self._calls: dict[str, asyncio.Task[_Verdict]] = {}

    async def stop(self) -> None:
        """Close the connections. Idempotent."""
        await self._webhook.close()

    async def authenticate_token(
        self, token: str, audiences: Sequence[str] = ()
    ) -> TokenIdentity | None:
        """Return the identity; see TokenAuthenticator. Requests with the same token share a
        call."""
        if len(token) > MAX_BYTES:
            return None
        requested = tuple(audiences or self._audiences)
        key = "\0".join((token, *requested))
        verdict = self._cache.get(key)
        if verdict is None:
            call = self._calls.get(key)
            if call is None:
                if len(self._calls) >= MAX_CALLS:
                    raise InvalidCredentials("the authentication webhook has too many calls")
                review = self._review(key, token, requested)
                # Not in the context of the request that comes first.
                call = asyncio.create_task(review, context=Context())
                self._calls[key] = call
            verdict = await asyncio.shield(call)
        if verdict.identity is None and verdict.error:
            raise InvalidCredentials(verdict.error)
        return verdict.identity

    async def _review(self, key: str, token: str, audiences: Sequence[str]) -> _Verdict:
        try:
            review = {
                "kind": "TokenReview",
                "apiVersion": self._api_version,
                "metadata": {"creationTimestamp": None},
                "spec": {"token": token, "audiences": list(audiences)},
                "status": {"user": {}},
            }
            response = await self._webhook.review(review)
            verdict = self._verdict(response, audiences)
        except WebhookFailed as error:
            _log.error("the authentication webhook failed: %s", error)
            return _Verdict(error="the authentication webhook failed")
        finally:
            del self._calls[key]
        self._cache.put(key, verdict, until=self._clock.now() + self._ttl)
        return verdict

    def _verdict(self, response: Any, audiences: Sequence[str]) -> _Verdict:
        """Return what a response says. Raises WebhookFailed for one that is not a TokenReview."""
        if not isinstance(response, dict) or response.get("kind") != "TokenReview":
            raise WebhookFailed("the response is not a TokenReview")
        if response.get("apiVersion") != self._api_version:
            raise WebhookFailed(f"the response is not of version {self._api_version}")
        status = response.get("status")
        status = status if isinstance(status, dict) else {}
        token_audiences = _strings(status.get("audiences")) or self._audiences
        valid = shared_audiences(audiences, token_audiences)
        if audiences and not valid:
            return _Verdict()
        if status.get("authenticated") is not True:
            return _Verdict(error=str(status.get("error") or "")[:_ERROR_CHARACTERS])
        return _Verdict(identity=TokenIdentity(user=_user(status.get("user")), audiences=valid))


def _user(info: Any) -> User:
    """Return the user of a UserInfo. Raises WebhookFailed."""
    info = info if isinstance(info, dict) else {}
    extra: Tree = info.get("extra") or {}
    name, uid = info.get("username") or "", info.get("uid") or ""
    if not (isinstance(name, str) and isinstance(uid, str) and isinstance(extra, dict)):
        raise WebhookFailed("the response has no valid user")
    return User(
        name=name,
        uid=uid,
        groups=with_authenticated(name, tuple(_strings(info.get("groups")))),
        extra={key: tuple(_strings(values)) for key, values in extra.items()},
    )


def _strings(values: Any) -> Sequence[str]:
    """Return a list of strings; [] for null. Raises WebhookFailed."""
    values = [] if values is None else values
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise WebhookFailed("the response has a list that is not one of strings")
    return values
