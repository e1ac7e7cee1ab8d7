"""KMS v2: the bytes of kube-apiserver, seeds and their rotation, and plugins that fail."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.spans import Trace
from kapiserver.storage.encryption.kms_messages import (
    HKDF_SEED,
    InvalidMessage,
    KeySource,
    decode_source,
    decode_status_response,
    encode_stored,
    split_stored,
)
from kapiserver.storage.encryption.kms_provider import MAX_SECONDS, KMSProvider
from kapiserver.storage.encryption.metrics import EncryptionMetrics, KeyUse, hash_of
from kapiserver.storage.encryption.transformers import (
    DecryptionError,
    DecryptResult,
    ExtendedNonceAESGCM,
)
from kapiserver.storage.errors import EncryptionFailed
from tests.clock import ManualClock
from tests.storage.kmskit import Plugin

KEY = "/registry/secrets/default/a"

BY_KUBE_APISERVER = [
    "0a410653ed985cfa1c6ab1cab2db4acc6500805d1c75c51f64685f156f8e119e5fc10293fceb7beee8d696217035"
    "0900ae506ed27d82bb0d5a5171f55a84de4d84fb3c12026b311a236b313a75eebda3ffc3eca100788d7f3d808212"
    "d663e538c86fe8bdf0fcfe26a95c809122150a0d612e6578616d706c652e636f6d12046e6f74652801",
    "0a21adcbdbfa01ca9a3b00000000468b0b8b1624ff3f2a727710519d01979ff2a1f07c12026b311a236b313a476d"
    "5f6e8008b9dd463ae280c1dbc20f7797e3de4ee62f1ce3a56423d874d8dd22150a0d612e6578616d706c652e636f"
    "6d12046e6f7465",
]
"""What the envelope transformer of k8s.io/apiserver v0.37.0 stored for `hello` under KEY, with a
plugin like that of `kmskit`: with a seed, and with a key as releases before 1.29 did."""

Test = Callable[[KMSProvider, Plugin, ManualClock], Awaitable[None]]


def run(test: Test, *, start: bool = True) -> EncryptionMetrics:
    """Run a test with a provider; return its metrics."""
    metrics, plugin, clock = EncryptionMetrics(), Plugin(), ManualClock()

    async def run_test() -> None:
        provider = KMSProvider("p", plugin, clock, metrics)
        if start:
            await provider.start()
        await test(provider, plugin, clock)
        await provider.close()
        assert plugin.is_closed

    asyncio.run(run_test())
    return metrics


async def read(provider: KMSProvider, stored: bytes) -> DecryptResult:
    await provider.load_keys([stored])
    return provider.decrypt(stored, KEY)


async def let_tasks_run() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("stored", "stale"), [(BY_KUBE_APISERVER[0], False), (BY_KUBE_APISERVER[1], True)]
)
def test_values_of_kube_apiserver(stored: str, stale: bool) -> None:
    """Values that kube-apiserver stored are read; one without a seed is stale."""

    async def test(provider: KMSProvider, plugin: Plugin, _clock: ManualClock) -> None:
        value = bytes.fromhex(stored)
        assert provider.needs_keys([value])
        assert await read(provider, value) == DecryptResult(b"hello", stale)
        assert await read(provider, value) == DecryptResult(b"hello", stale)
        assert plugin.calls["decrypt"] == 1

    assert run(test).cache_misses == 1


def test_span() -> None:
    """A call of the plugin for a request is a span of the request; keys in memory need no call."""
    trace = Trace()

    async def test(provider: KMSProvider, plugin: Plugin, _clock: ManualClock) -> None:
        trace.begin()
        for _ in range(2):
            await read(provider, bytes.fromhex(BY_KUBE_APISERVER[0]))

    run(test)
    assert [(each.name, each.attributes) for each in trace.spans] == [
        ("kms", {"transformer.provider.name": "p"})
    ]


def test_stored_form() -> None:
    """A value has the encrypted data, then the source of its key, in the order of the fields."""

    async def test(provider: KMSProvider, plugin: Plugin, _clock: ManualClock) -> None:
        stored = provider.encrypt(b"hello", KEY)
        data, encoded = split_stored(stored)
        source = decode_source(encoded)
        assert (source.key_id, source.source_type) == ("k1", HKDF_SEED)
        assert source.annotations == {"a.example.com": b"note"}
        seed = source.encrypted.removeprefix(b"k1:")
        assert ExtendedNonceAESGCM(seed).decrypt(data, KEY).value == b"hello"
        assert len(data) == 32 + 12 + len(b"hello") + 16
        assert provider.encrypt(b"hello", KEY) != stored
        with pytest.raises(DecryptionError, match="authentication failed"):
            provider.decrypt(stored, KEY + "b")
        assert "decrypt" not in plugin.calls

    metrics = run(test)
    assert metrics.key_uses.values[KeyUse("to_storage", "p", hash_of("k1"))] == 2
    assert metrics.cached_keys.values == {"p": 1}


@given(
    st.binary(min_size=1, max_size=200),
    st.text(min_size=1, max_size=20).filter(lambda text: text.isprintable()),
    st.binary(min_size=1, max_size=200),
    st.dictionaries(st.sampled_from(["a.b", "c.example.com"]), st.binary(max_size=20)),
    st.sampled_from([0, 1]),
)
def test_round_trip(
    data: bytes, key_id: str, encrypted: bytes, annotations: dict[str, bytes], source_type: int
) -> None:
    """What is encoded is decoded again."""
    source = KeySource(key_id, encrypted, annotations, source_type)
    stored = encode_stored(data, source.encode())
    assert split_stored(stored)[0] == data
    assert decode_source(split_stored(stored)[1]) == source


@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    """Any bytes are a message or an InvalidMessage."""
    for decode in (split_stored, decode_source, decode_status_response):
        with contextlib.suppress(InvalidMessage):
            decode(data)


REFUSED = [
    (KeySource("", b"x"), "failed to validate key id: keyID is empty"),
    (KeySource("k" * 1025, b"x"), "failed to validate key id: keyID is 1025 bytes, which exceeds "
     "the max size of 1024"),
    (KeySource("k", b""), "failed to validate encrypted DEK source: encrypted DEK source is empty"),
    (KeySource("k", bytes(1025)), "failed to validate encrypted DEK source: encrypted DEK source "
     "is 1025 bytes, which exceeds the max size of 1024"),
    (KeySource("k", b"x", source_type=2), "unknown encryptedDEKSourceType: 2"),
    (KeySource("k", b"x", {"a": b""}), 'failed to validate annotations: annotations: Invalid '
     'value: "a": should be a domain with at least two segments separated by dots'),
    (KeySource("k", b"x", {"a.b": bytes(32768)}), "failed to validate annotations: total size of "
     "annotations is 32771, which exceeds the max size of 32768"),
]  # fmt: skip


@pytest.mark.parametrize(("source", "message"), REFUSED)
def test_limits(source: KeySource, message: str) -> None:
    """A source outside the limits is refused with kube-apiserver's message."""
    with pytest.raises(InvalidMessage) as caught:
        decode_source(source.encode())
    assert str(caught.value) == message


def test_rotation() -> None:
    """Another key ID makes a new seed at the next poll; old values are read, and are stale."""

    async def test(provider: KMSProvider, plugin: Plugin, clock: ManualClock) -> None:
        old = provider.encrypt(b"old", KEY)
        plugin.key_id = "k2"
        clock.advance(60)
        await let_tasks_run()
        new = provider.encrypt(b"new", KEY)
        assert decode_source(split_stored(new)[1]).key_id == "k2"
        assert await read(provider, old) == DecryptResult(b"old", True)
        assert await read(provider, new) == DecryptResult(b"new", False)
        clock.advance(60)
        await let_tasks_run()
        assert plugin.calls == {"status": 3, "encrypt": 2}

    assert set(run(test).status_times.values) == {("p", hash_of("k1")), ("p", hash_of("k2"))}


def test_dead_plugin() -> None:
    """Without its plugin a provider encrypts for three minutes, and then fails writes; it reads
    with the keys that it has for ever, and others again when the plugin is back."""

    async def test(provider: KMSProvider, plugin: Plugin, clock: ManualClock) -> None:
        stored = provider.encrypt(b"v", KEY)
        other = bytes.fromhex(BY_KUBE_APISERVER[0])
        plugin.problem = "rpc error: code = Unavailable desc = gone"
        clock.advance(MAX_SECONDS)
        await let_tasks_run()
        provider.encrypt(b"v", KEY)
        assert await provider.check() == (
            "failed to perform status section of the healthz check for KMS Provider p, error: "
            "rpc error: code = Unavailable desc = gone"
        )
        clock.advance(1)
        with pytest.raises(EncryptionFailed) as caught:
            provider.encrypt(b"v", KEY)
        assert str(caught.value).startswith(
            f'encryptedDEKSource with keyID hash "{hash_of("k1")}" expired at '
        )
        assert await read(provider, stored) == DecryptResult(b"v", False)
        with pytest.raises(DecryptionError) as problem:
            await read(provider, other)
        assert str(problem.value) == (
            "failed to decrypt DEK, error: rpc error: code = Unavailable desc = gone"
        )
        plugin.problem = ""
        clock.advance(10)
        await let_tasks_run()
        assert provider.decrypt(other, KEY).value == b"hello"
        assert await provider.check() == ""
        provider.encrypt(b"v", KEY)
        assert plugin.calls["encrypt"] == 1

    run(test)


def test_plugin_that_starts_later() -> None:
    """A provider without a plugin refuses writes and reads until the plugin answers."""

    async def test(provider: KMSProvider, plugin: Plugin, clock: ManualClock) -> None:
        plugin.problem = "gone"
        await provider.start()
        with pytest.raises(EncryptionFailed, match="got unexpected nil transformer"):
            provider.encrypt(b"v", KEY)
        stored = bytes.fromhex(BY_KUBE_APISERVER[0])
        with pytest.raises(DecryptionError):
            await read(provider, stored)
        plugin.problem = ""
        clock.advance(10)
        await let_tasks_run()
        provider.encrypt(b"v", KEY)
        assert await read(provider, stored) == DecryptResult(b"hello", False)

    run(test, start=False)


UNHEALTHY: list[tuple[dict[str, str], str]] = [
    ({"healthz": "sealed"}, "got unexpected healthz status: sealed"),
    ({"version": "v1"}, "expected KMSv2 API version v2, got v1"),
    ({"version": "v2beta1"}, "KMSv2 API version should not change after the initial status "
     "response version v2, got v2beta1"),
    ({"key_id": ""}, 'got invalid KMSv2 KeyID hash "": keyID is empty'),
    ({"encrypts_with": "k3", "key_id": "k2"}, "failed to rotate DEK, error: the key ID of the "
     f'status differs, statusKeyIDHash="{hash_of("k2")}", encryptKeyIDHash="{hash_of("k3")}", '
     f'stateKeyIDHash="{hash_of("k1")}"'),
]  # fmt: skip


@pytest.mark.parametrize(("reported", "problem"), UNHEALTHY)
def test_unhealthy_plugins(reported: dict[str, str], problem: str) -> None:
    """A health check reports what is wrong with a plugin, and the current seed stays."""

    async def test(provider: KMSProvider, plugin: Plugin, clock: ManualClock) -> None:
        for name, value in reported.items():
            setattr(plugin, name, value)
        assert await provider.check() == ""  # the last probe is new enough
        clock.advance(21)
        assert await provider.check() == f"kmsv2 Provider p is not healthy, error: {problem}"
        assert await read(provider, provider.encrypt(b"v", KEY)) == DecryptResult(b"v", False)

    run(test)
