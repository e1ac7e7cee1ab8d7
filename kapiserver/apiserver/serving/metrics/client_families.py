"""The metrics of the server's own requests to webhooks."""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.apiserver.serving.metrics.families import counts, histogram, numbers
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.apiserver.webhooks.metrics import ClientMetrics, ConversionMetrics


def client_families(metrics: ClientMetrics) -> Iterator[Family]:
    """Yield the families of requests to webhooks, with client-go's names."""
    yield numbers(
        "counter",
        "rest_client_requests_total",
        "Requests to webhooks, by status code; <error> stands for no response.",
        ("code", "method", "host"),
        metrics.requests,
    )
    for name, text, observed in (
        ("duration_seconds", "Seconds that a request to a webhook took.", metrics.seconds),
        ("size_bytes", "Bytes of the bodies of requests to webhooks.", metrics.request_bytes),
    ):
        yield histogram(f"rest_client_request_{name}", text, ("verb", "host"), observed)
    yield histogram(
        "rest_client_response_size_bytes",
        "Bytes of the bodies of webhooks' responses.",
        ("verb", "host"),
        metrics.response_bytes,
    )


def conversion_families(metrics: ConversionMetrics) -> Iterator[Family]:
    """Yield the families of conversion webhooks."""
    labels = ("result", "failure_type")
    yield counts(
        "apiserver_conversion_webhook_request_total",
        "Calls of conversion webhooks.",
        labels,
        metrics.seconds,
    )
    yield histogram(
        "apiserver_conversion_webhook_duration_seconds",
        "Seconds that a call of a conversion webhook took.",
        labels,
        metrics.seconds,
    )
    yield histogram(
        "apiserver_crd_conversion_webhook_duration_seconds",
        "The same by definition and versions.",
        ("crd_name", "from_version", "to_version", "succeeded"),
        metrics.definition_seconds,
    )
