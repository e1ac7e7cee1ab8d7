"""Metrics of authorizers, with the names and buckets of kube-apiserver."""

from __future__ import annotations

from kapiserver.apiserver.authentication.metrics import AUTHENTICATION_SECONDS
from kapiserver.apiserver.webhooks.metrics import ClientMetrics
from kapiserver.metrics import MAX_USER_SERIES, Counter, Histogram, Reloads

WEBHOOK_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
CONDITION_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25)


class DecisionCounts:
    """How many requests one authorizer has allowed and denied."""

    __slots__ = ("allowed", "denied")

    def __init__(self) -> None:
        self.allowed = self.denied = 0


class AuthorizationMetrics:
    """The numbers of all authorizers of a server."""

    def __init__(self, client: ClientMetrics | None = None) -> None:
        self.client = client or ClientMetrics()
        """The requests to webhooks."""
        self.seconds: Histogram[str] = Histogram(AUTHENTICATION_SECONDS)
        """Seconds by result: "allowed", "denied", "no-opinion" or "error"."""
        self.decisions: dict[tuple[str, str], DecisionCounts] = {}
        """The decisions by type and name of the authorizer."""
        self.webhook_seconds: Histogram[tuple[str, str]] = Histogram(
            WEBHOOK_SECONDS, limit=MAX_USER_SERIES
        )
        """Seconds of calls by the webhook's name and result: "success", "error", "timeout" or
        "canceled"."""
        self.failed_open: Counter[tuple[str, str]] = Counter(limit=MAX_USER_SERIES)
        """Failed calls after which other authorizers decided, by name and result."""
        self.condition_seconds: Histogram[str] = Histogram(CONDITION_SECONDS, limit=MAX_USER_SERIES)
        """Seconds that the match conditions of a webhook took, by its name."""
        self.condition_errors: Counter[str] = Counter(limit=MAX_USER_SERIES)
        self.exclusions: Counter[str] = Counter(limit=MAX_USER_SERIES)
        """Requests that match conditions excluded, by the webhook's name."""
        self.reloads = Reloads()
        """The reloads of the authorization configuration."""

    def decisions_of(self, type: str, name: str) -> DecisionCounts:
        """Return the decisions of an authorizer."""
        return self.decisions.setdefault((type, name), DecisionCounts())
