"""Metrics of the server's own requests to webhooks, with the names and buckets of client-go and
kube-apiserver."""

from __future__ import annotations

from kapiserver.metrics import MAX_USER_SERIES, Counter, Histogram

CLIENT_SECONDS = (0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60)
CLIENT_BYTES = (64.0, 256.0, 512.0, *(1024.0 * 4**exponent for exponent in range(8)))
CONVERSION_SECONDS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 45, 60)
DEFINITION_SECONDS = tuple(0.001 * 2**exponent for exponent in range(15))
NO_RESPONSE = "<error>"
"""The code of a request without a response."""


class ClientMetrics:
    """The requests of HTTP clients, by method and host."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, str]] = Counter(limit=MAX_USER_SERIES)
        """The requests by status code, or NO_RESPONSE, method and host."""
        self.seconds: Histogram[tuple[str, str]] = Histogram(CLIENT_SECONDS, limit=MAX_USER_SERIES)
        self.request_bytes: Histogram[tuple[str, str]] = Histogram(
            CLIENT_BYTES, limit=MAX_USER_SERIES
        )
        self.response_bytes: Histogram[tuple[str, str]] = Histogram(
            CLIENT_BYTES, limit=MAX_USER_SERIES
        )


class ConversionMetrics:
    """The calls of conversion webhooks."""

    def __init__(self, client: ClientMetrics) -> None:
        self.client = client
        self.seconds: Histogram[tuple[str, str]] = Histogram(CONVERSION_SECONDS)
        """Seconds by result, "success" or "failure", and type of the failure."""
        self.definition_seconds: Histogram[tuple[str, str, str, str]] = Histogram(
            DEFINITION_SECONDS, limit=MAX_USER_SERIES
        )
        """Seconds by name of the definition, version of the objects, version that they get, and
        whether that succeeded: "true" or "false"."""
