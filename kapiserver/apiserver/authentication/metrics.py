"""Metrics of authenticators, with the names and buckets of kube-apiserver."""

from __future__ import annotations

from kapiserver.apiserver.webhooks.metrics import ClientMetrics
from kapiserver.metrics import MAX_USER_SERIES, Counter, Histogram, Reloads

AUTHENTICATION_SECONDS = tuple(0.001 * 2**exponent for exponent in range(15))
JWT_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
CERTIFICATE_SECONDS = (
    0, 1800, 3600, 7200, 21600, 43200, 86400, 172800, 345600, 604800, 2592000, 7776000,
    15552000, 31104000,
)  # fmt: skip


class AuthenticationMetrics:
    """Counters and histograms of the authenticators."""

    def __init__(self, client: ClientMetrics | None = None) -> None:
        self.client = client or ClientMetrics()
        """The requests to webhooks."""
        self.certificate_seconds: Histogram[str] = Histogram(CERTIFICATE_SECONDS)
        """The remaining life of client certificates; the only label is ""."""
        self.account_tokens: Counter[str] = Counter()
        """Accepted service account tokens: "valid" and "stale" ones with an extended expiry, and
        "legacy" ones of Secrets."""
        self.legacy_uses: Counter[str] = Counter()
        """Uses of tokens of Secrets: "manual" ones, "auto" ones that a controller of old releases
        made, and refused "invalid" ones of these."""
        self.token_cache: Counter[str] = Counter()
        """Look-ups in the caches of JWTs and of token reviews: "hit" or "miss"."""
        self.jwt_seconds: Histogram[tuple[str, str]] = Histogram(JWT_SECONDS, limit=MAX_USER_SERIES)
        """Seconds by result, "success" or "failure", and the hash of the issuer's URL."""
        self.key_fetches: dict[str, Reloads] = {}
        """The fetches of the keys of issuers, by the hash of the issuer's URL."""
        self.reloads = Reloads()
        """The reloads of the authentication configuration."""
