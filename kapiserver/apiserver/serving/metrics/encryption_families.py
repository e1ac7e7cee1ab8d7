"""The metrics of encryption at rest as families of the exposition.

The names, types, labels and buckets are those of kube-apiserver. A server without encryption
has no series.
"""

from __future__ import annotations

from collections.abc import Iterator

from kapiserver.apiserver.identity import server_id_hash
from kapiserver.apiserver.serving.metrics.families import histogram, numbers
from kapiserver.apiserver.serving.metrics.text import Family
from kapiserver.metrics import Gauge
from kapiserver.storage.encryption.metrics import EncryptionMetrics, KeyUse, KMSCall, Transformation

_PREFIX = "apiserver_envelope_encryption"
_STORAGE_PREFIX = "apiserver_storage"


def encryption_families(metrics: EncryptionMetrics) -> Iterator[Family]:
    """Yield the families of all providers."""
    yield numbers(
        "counter",
        f"{_STORAGE_PREFIX}_transformation_operations_total",
        "Values that were encrypted or decrypted, by resource, prefix and status.",
        Transformation._fields,
        metrics.transformations,
    )
    yield histogram(
        f"{_STORAGE_PREFIX}_transformation_duration_seconds",
        "Seconds of the encryption or decryption of a value, by prefix.",
        ("transformation_type", "transformer_prefix"),
        metrics.transformation_seconds,
    )
    yield histogram(
        f"{_PREFIX}_kms_operations_latency_seconds",
        "Seconds of a call of a KMS plugin, by gRPC status.",
        KMSCall._fields,
        metrics.call_seconds,
    )
    server = server_id_hash()
    labels = (*KeyUse._fields, "apiserver_id_hash")
    yield Family(
        name=f"{_PREFIX}_key_id_hash_total",
        type="counter",
        text="Values that were encrypted or decrypted with a key ID.",
        labels=labels,
        series=[((*use, server), count) for use, count in metrics.key_uses.values.items()],
    )
    yield Family(
        name=f"{_PREFIX}_key_id_hash_last_timestamp_seconds",
        type="gauge",
        text="When a key ID was last used, in seconds since 1970.",
        labels=labels,
        series=[((*use, server), seconds) for use, seconds in metrics.key_use_times.values.items()],
    )
    yield _status_times(metrics.status_times, server)
    yield numbers(
        "counter",
        f"{_PREFIX}_invalid_key_id_from_status_total",
        "Invalid key IDs that a KMS plugin reported, by error.",
        ("provider_name", "error"),
        metrics.invalid_key_ids,
    )
    yield numbers(
        "gauge",
        f"{_PREFIX}_dek_source_cache_size",
        "Decrypted keys and seeds in memory.",
        ("provider_name",),
        metrics.cached_keys,
    )
    yield Family(
        name=f"{_STORAGE_PREFIX}_envelope_transformation_cache_misses_total",
        type="counter",
        text="Keys that a KMS plugin had to decrypt.",
        series=[((), metrics.cache_misses)],
    )
    yield histogram(
        f"{_STORAGE_PREFIX}_data_key_generation_duration_seconds",
        "Seconds that a new seed of keys took.",
        (),
        metrics.key_generation_seconds,
    )
    yield Family(
        name=f"{_STORAGE_PREFIX}_data_key_generation_failures_total",
        type="counter",
        text="New seeds of keys that could not be made.",
        series=[((), metrics.key_generation_failures)],
    )


def _status_times(times: Gauge[tuple[str, str]], server: str) -> Family:
    return Family(
        name=f"{_PREFIX}_key_id_hash_status_last_timestamp_seconds",
        type="gauge",
        text="When a KMS plugin last reported a key ID, in seconds since 1970.",
        labels=("provider_name", "key_id_hash", "apiserver_id_hash"),
        series=[((*names, server), seconds) for names, seconds in times.values.items()],
    )
