"""The file of `--tracing-config-file`.

Mirrors tracing/api/v1 of k8s.io/component-base, whose collectors speak gRPC; ours speak HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path as FilePath

from kapiserver.api.errors import FieldError, Path, invalid
from kapiserver.api.group import GroupVersionKind
from kapiserver.api.types import Kind, Tree, field, int32
from kapiserver.apiserver.configuration_files import read_configuration

MAX_RATE = 1_000_000


class TracingConfiguration(Kind):
    """Where spans are sent to, and of how many requests."""

    endpoint: str | None = field(
        1, doc="Host and port, or the URL, of a collector. Default: localhost:4318."
    )
    samplingRatePerMillion: int32 | None = field(
        2, doc="Of a million requests without a sampled parent, how many are traced. Default: 0."
    )


KINDS = {
    GroupVersionKind("apiserver.config.k8s.io", version, "TracingConfiguration"): (
        TracingConfiguration
    )
    for version in ("v1", "v1beta1", "v1alpha1")
}


def read_tracing_configuration(file: FilePath) -> Tree:
    """Return the valid object of a file. Raises BadConfiguration."""
    return read_configuration(file, KINDS, purpose="tracing configuration", validate=_validate)


def traces_url(endpoint: str) -> str:
    """Return the URL to which spans are sent."""
    url = endpoint or "localhost:4318"
    url = url if "://" in url else f"http://{url}"
    return url if url.partition("://")[2].partition("/")[2] else f"{url.rstrip('/')}/v1/traces"


def _validate(tree: Tree) -> Iterator[FieldError]:
    rate, endpoint = tree.get("samplingRatePerMillion"), tree.get("endpoint")
    if rate is not None and rate < 0:
        yield invalid(Path("samplingRatePerMillion"), rate, "sampling rate must be positive")
    if rate is not None and rate > MAX_RATE:
        yield invalid(
            Path("samplingRatePerMillion"),
            rate,
            "sampling rate per million must be less than or equal to one million",
        )
    scheme = endpoint.partition("://")[0] if endpoint and "://" in endpoint else "http"
    if scheme not in ("http", "https"):
        text = f"unsupported scheme: {scheme}.  Options are none, http, or https."
        yield invalid(Path("endpoint"), endpoint, text)
