"""What KMS providers count. `serving/metrics/encryption_families.py` names the families."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

from kapiserver.metrics import MAX_USER_SERIES, Counter, Gauge, Histogram

OK, NOT_GRPC = "OK", "unknown-non-grpc"
"""The status of a transformation that succeeded, and of one that failed without a KMS plugin."""
MAX_KEY_IDS = 100
"""The key IDs that each metric keeps, as in kube-apiserver."""
KMS_SECONDS = tuple(0.0001 * 2**exponent for exponent in range(20))
KEY_SECONDS = tuple(5e-6 * 2**exponent for exponent in range(14))


TRANSFORMATION_SECONDS = tuple(5e-6 * 2**exponent for exponent in range(25))


class Transformation(NamedTuple):
    """Labels of values that were encrypted ("to_storage") or decrypted ("from_storage").

    resource            as in `deployments.apps`
    transformer_prefix  the prefix of the values, "identity" or "unknown"
    status              "OK", the gRPC code of a KMS plugin, or "unknown-non-grpc"
    """

    resource: str
    transformation_type: str
    transformer_prefix: str
    status: str


class KMSCall(NamedTuple):
    """Labels of a call of a plugin; `grpc_status_code` is the name of the code in Go."""

    provider_name: str
    method_name: str
    grpc_status_code: str


class KeyUse(NamedTuple):
    """Labels of a use of a key ID; `transformation_type` is "from_storage" or "to_storage"."""

    transformation_type: str
    provider_name: str
    key_id_hash: str


class EncryptionMetrics:
    """The metrics of the providers of one server, most of them of KMS providers."""

    def __init__(self) -> None:
        self.transformations: Counter[Transformation] = Counter(limit=MAX_USER_SERIES)
        self.transformation_seconds: Histogram[tuple[str, str]] = Histogram(
            TRANSFORMATION_SECONDS, limit=MAX_USER_SERIES
        )
        """Times of successful transformations, by type and prefix."""
        self.call_seconds: Histogram[KMSCall] = Histogram(KMS_SECONDS)
        self.key_uses: Counter[KeyUse] = Counter(limit=MAX_KEY_IDS)
        self.key_use_times: Gauge[KeyUse] = Gauge(limit=MAX_KEY_IDS)
        """When a key ID was last used, in seconds since 1970."""
        self.status_times: Gauge[tuple[str, str]] = Gauge(limit=MAX_KEY_IDS)
        """When a plugin last reported a key ID, by provider and hash of the key ID."""
        self.invalid_key_ids: Counter[tuple[str, str]] = Counter()
        """The invalid key IDs that a plugin reported, by provider and error."""
        self.cached_keys: Gauge[str] = Gauge()
        """The decrypted seeds in memory, by provider."""
        self.cache_misses = 0
        self.key_generation_seconds: Histogram[str] = Histogram(KEY_SECONDS)
        """Its only label is ""."""
        self.key_generation_failures = 0

    def observe_transformation(self, labels: Transformation, seconds: float) -> None:
        """Count one value."""
        self.transformations.add(labels)
        if labels.status == OK:
            self.transformation_seconds.observe(
                (labels.transformation_type, labels.transformer_prefix), seconds
            )

    def use_key(self, use: KeyUse, now: float) -> None:
        """Count a value that was encrypted or decrypted with a key ID."""
        self.key_uses.add(use)
        self.key_use_times.add(use, 0)
        self.key_use_times.set(use, now)

    def report_key(self, provider: str, key_id: str, now: float) -> None:
        """Note that a plugin reported a key ID."""
        labels = (provider, hash_of(key_id))
        self.status_times.add(labels, 0)  # makes room, which `set` does not
        self.status_times.set(labels, now)


def hash_of(text: str) -> str:
    """Return the hash of a key ID as messages and metrics show it; "" for ""."""
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}" if text else ""
