"""Authorizes requests by a webhook, which gets a SubjectAccessReview.

Mirrors plugin/pkg/authorizer/webhook of k8s.io/apiserver.
"""

from __future__ import annotations

import logging
import time
from typing import Any

import orjson

from kapiserver.api.types import Tree
from kapiserver.apiserver.authentication.token_cache import TokenCache
from kapiserver.apiserver.authorization.access_review import review_spec, without_empty
from kapiserver.apiserver.authorization.match_conditions import ConditionFailed, matches
from kapiserver.apiserver.authorization.metrics import AuthorizationMetrics
from kapiserver.apiserver.authorizer import (
    Decision,
    ManagedAuthorizer,
    Rules,
    Verdict,
)
from kapiserver.apiserver.durations import parse_duration
from kapiserver.apiserver.request_info import RequestInfo
from kapiserver.apiserver.user import User
from kapiserver.apiserver.webhooks.http_client import WebhookFailed
from kapiserver.apiserver.webhooks.kubeconfig import KubeconfigWebhook
from kapiserver.storage.concurrency.clock import Clock

_log = logging.getLogger(__name__)

MAX_CACHED_BYTES = 10_000
"""The longest spec whose decision is kept."""
MAX_CACHED = 8192
_UNMATCHED = Decision(verdict=Verdict.NO_OPINION)
_FAILURE_VERDICTS = {"NoOpinion": Verdict.NO_OPINION, "Deny": Verdict.DENY}


class WebhookAuthorizer(ManagedAuthorizer):
    """Asks a webhook about the requests that match the conditions of its configuration."""

    def __init__(
        self,
        webhook: KubeconfigWebhook,
        name: str,
        settings: Tree,
        clock: Clock,
        metrics: AuthorizationMetrics | None = None,
    ) -> None:
        """Take the WebhookConfiguration of an authorizer, which is valid."""
        self._metrics = metrics or AuthorizationMetrics()
        self._webhook = webhook
        self._name = name
        self._clock = clock
        self._api_version = f"authorization.k8s.io/{settings['subjectAccessReviewVersion']}"
        self._conditions = [
            match_condition["expression"]
            for match_condition in settings.get("matchConditions") or ()
        ]
        self._on_failure = _FAILURE_VERDICTS[settings["failurePolicy"]]
        self._authorized_ttl = _cache_seconds(settings, "cacheAuthorizedRequests", "authorizedTTL")
        self._unauthorized_ttl = _cache_seconds(
            settings, "cacheUnauthorizedRequests", "unauthorizedTTL"
        )
        self._cache: TokenCache[Decision] = TokenCache(clock, MAX_CACHED)

    async def start(self) -> None:
        """Do nothing: connections open at the first call."""

    async def stop(self) -> None:
        """Close the connections. Idempotent."""
        await self._webhook.close()

    async def authorize(self, user: User, info: RequestInfo) -> Decision:
        """Return the decision of the webhook. If a condition or the call fails, return the decision
        of the failure policy, with the error."""
        spec = review_spec(user, info)
        if self._conditions:
            try:
                if not self._matches(spec):
                    return _UNMATCHED
            except ConditionFailed as error:
                return self._decide_failure(str(error))
        request_spec = without_empty(spec)
        key = orjson.dumps(request_spec, option=orjson.OPT_SORT_KEYS).decode()
        decision = self._cache.get(key)
        if decision is not None:
            return decision
        try:
            decision = await self._call(request_spec)
        except WebhookFailed as error:
            if self._on_failure is Verdict.NO_OPINION:
                result = "timeout" if error.timed_out else "error"
                self._metrics.failed_open.add((self._name, result))
            return self._decide_failure(str(error))
        if len(key) <= MAX_CACHED_BYTES:
            ttl = self._authorized_ttl if decision.allowed else self._unauthorized_ttl
            self._cache.put(key, decision, until=self._clock.now() + ttl)
        return decision

    async def rules_for(self, _user: User, _namespace: str) -> Rules:
        """Return no rules: the webhook cannot list them."""
        return Rules(
            incomplete=True, error="webhook authorizer does not support user rule resolution"
        )

    def _matches(self, spec: Tree) -> bool:
        """Return whether the match conditions are true of a spec. Raises ConditionFailed."""
        started = time.perf_counter()
        try:
            is_match = matches(self._conditions, spec)
        except ConditionFailed:
            self._metrics.condition_errors.add(self._name)
            raise
        finally:
            self._metrics.condition_seconds.observe(self._name, time.perf_counter() - started)
        if not is_match:
            self._metrics.exclusions.add(self._name)
        return is_match

    def _decide_failure(self, text: str) -> Decision:
        _log.error("the authorization webhook %s failed: %s", self._name, text)
        return Decision(verdict=self._on_failure, error=text)

    async def _call(self, spec: Tree) -> Decision:
        """Return the decision of the webhook. Raises WebhookFailed."""
        review: Tree = {
            "kind": "SubjectAccessReview",
            "apiVersion": self._api_version,
            "metadata": {"creationTimestamp": None},
            "spec": _old_spec(spec) if self._api_version.endswith("/v1beta1") else spec,
            "status": {"allowed": False},
        }
        response = await self._webhook.review(review, observe=self._observe)
        return _decision(response, self._api_version)

    def _observe(self, result: str, seconds: float) -> None:
        self._metrics.webhook_seconds.observe((self._name, result), seconds)


def _old_spec(spec: Tree) -> Tree:
    """Return the spec in v1beta1, which names the groups `group`."""
    return {{"groups": "group"}.get(name, name): value for name, value in spec.items()}


def _decision(response: Any, api_version: str) -> Decision:
    """Return the decision of a response. Raises WebhookFailed for one that is not a review."""
    if not isinstance(response, dict) or response.get("kind") != "SubjectAccessReview":
        raise WebhookFailed("the response is not a SubjectAccessReview")
    if response.get("apiVersion") != api_version:
        raise WebhookFailed(f"the response is not of version {api_version}")
    status = response.get("status")
    status = status if isinstance(status, dict) else {}
    allowed, denied = status.get("allowed") is True, status.get("denied") is True
    reason = str(status.get("reason") or "")
    if allowed and denied:
        error = "webhook subject access review returned both allow and deny response"
        return Decision(verdict=Verdict.DENY, reason=reason, error=error)
    if denied:
        return Decision(verdict=Verdict.DENY, reason=reason)
    return Decision(verdict=Verdict.ALLOW if allowed else Verdict.NO_OPINION, reason=reason)


def _cache_seconds(settings: Tree, switch: str, ttl: str) -> float:
    if settings.get(switch) is False:
        return 0.0
    return parse_duration(settings[ttl]) or 0.0
