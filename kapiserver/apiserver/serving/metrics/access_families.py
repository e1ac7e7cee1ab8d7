"""The metrics of authentication and authorization, with kube-apiserver's names and buckets."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.apiserver.authentication.metrics import AuthenticationMetrics
from kapiserver.apiserver.authorization.metrics import AuthorizationMetrics
from kapiserver.apiserver.metrics import Metrics
from kapiserver.apiserver.serving.metrics.families import counts, histogram, numbers
from kapiserver.apiserver.serving.metrics.reload_families import key_fetch_families
from kapiserver.apiserver.serving.metrics.text import Family


def access_families(metrics: Metrics) -> Iterator[Family]:
    """Yield the families of authentication and authorization."""
    yield histogram(
        "authentication_duration_seconds",
        "Seconds that the authentication of a request took, by result.",
        ("result",),
        metrics.authentication_seconds,
    )
    yield counts(
        "authentication_attempts",
        "Authenticated requests by result: success, failure (no credentials) or error.",
        ("result",),
        metrics.authentication_seconds,
    )
    yield numbers(
        "counter",
        "authenticated_user_requests",
        "Authenticated requests by user; only well-known users have a label of their own.",
        ("username",),
        metrics.user_requests,
    )
    yield from _authenticators(metrics.authentication)
    yield from _authorization(metrics.authorization)
    yield from _authorization_webhooks(metrics.authorization)


def _authenticators(metrics: AuthenticationMetrics) -> Iterator[Family]:
    tokens, uses = metrics.account_tokens.values, metrics.legacy_uses.values
    for name, text, count in (
        ("legacy_tokens", "Accepted service account tokens of Secrets.", tokens.get("legacy", 0)),
        (
            "stale_tokens",
            "Accepted service account tokens after their expiry before extension.",
            tokens.get("stale", 0),
        ),
        (
            "valid_tokens",
            "Accepted service account tokens before their expiry before extension.",
            tokens.get("valid", 0),
        ),
        (
            "legacy_manual_token_uses",
            "Uses of tokens of Secrets that users made.",
            uses.get("manual", 0),
        ),
        (
            "legacy_auto_token_uses",
            "Uses of tokens of Secrets that a controller of old releases made.",
            uses.get("auto", 0),
        ),
        (
            "invalid_legacy_auto_token_uses",
            "Refused uses of such tokens that are marked as invalid.",
            uses.get("invalid", 0),
        ),
    ):
        series = [((), count)]
        yield Family(name=f"serviceaccount_{name}_total", type="counter", text=text, series=series)
    yield numbers(
        "counter",
        "authentication_token_cache_request_total",
        "Look-ups in the caches of JWTs and of token reviews: hit or miss.",
        ("status",),
        metrics.token_cache,
    )
    yield histogram(
        "apiserver_client_certificate_expiration_seconds",
        "Remaining life of the client certificates of requests.",
        (),
        metrics.certificate_seconds,
    )
    yield histogram(
        "apiserver_authentication_jwt_authenticator_latency_seconds",
        "Seconds that the verification of a token took, by result and hash of its issuer.",
        ("result", "jwt_issuer_hash"),
        metrics.jwt_seconds,
    )
    yield from key_fetch_families(metrics.key_fetches)


def _authorization(metrics: AuthorizationMetrics) -> Iterator[Family]:
    result = ("result",)
    yield histogram(
        "authorization_duration_seconds",
        "Seconds that the authorization of a request took, by result.",
        result,
        metrics.seconds,
    )
    yield counts(
        "authorization_attempts_total",
        "Requests by result of their authorization: allowed, denied, no-opinion or error.",
        result,
        metrics.seconds,
    )
    yield Family(
        name="apiserver_authorization_decisions_total",
        type="counter",
        text="Requests that an authorizer has allowed or denied.",
        labels=("type", "name", "decision"),
        series=[
            ((*labels, decision), number)
            for labels, decided in metrics.decisions.items()
            for decision, number in (("allowed", decided.allowed), ("denied", decided.denied))
            if number
        ],
    )


def _authorization_webhooks(metrics: AuthorizationMetrics) -> Iterator[Family]:
    prefix, labels = "apiserver_authorization_webhook", ("name", "result")
    yield counts(
        f"{prefix}_evaluations_total",
        "Calls of authorization webhooks.",
        labels,
        metrics.webhook_seconds,
    )
    yield histogram(
        f"{prefix}_duration_seconds",
        "Seconds that a call of an authorization webhook took.",
        labels,
        metrics.webhook_seconds,
    )
    yield numbers(
        "counter",
        f"{prefix}_evaluations_fail_open_total",
        "Failed calls of authorization webhooks after which other authorizers decided.",
        labels,
        metrics.failed_open,
    )
    conditions = "apiserver_authorization_match_condition"
    by_webhook = [
        (("Webhook", name), histogram)
        for name, histogram in metrics.condition_seconds.values.items()
    ]
    yield Family(
        name=f"{conditions}_evaluation_seconds",
        type="histogram",
        text="Seconds that the match conditions of an authorization webhook took.",
        labels=("type", "name"),
        series=by_webhook,
        bounds=metrics.condition_seconds.bounds,
    )
    for name, text, counter in (
        ("evaluation_errors", "Match conditions that failed.", metrics.condition_errors),
        ("exclusions", "Requests that match conditions excluded.", metrics.exclusions),
    ):
        yield Family(
            name=f"{conditions}_{name}_total",
            type="counter",
            text=f"{text[:-1]}, by authorization webhook.",
            labels=("type", "name"),
            series=[(("Webhook", labels), number) for labels, number in counter.values.items()],
        )
