"""Ciphers of encryption at rest: the stored bytes are kube-apiserver's, and are decrypted here by
hand."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from cryptography.hazmat.primitives import padding
from cryptography.hazmat.primitives.ciphers import Cipher, aead, algorithms, modes
from cryptography.hazmat.primitives.poly1305 import Poly1305
from hypothesis import given, settings
from hypothesis import strategies as st

from kapiserver.storage.encryption.transformers import (
    AESCBC,
    AESGCM,
    IDENTITY,
    DecryptionError,
    DecryptResult,
    PrefixTransformer,
    PrefixTransformers,
    Secretbox,
    Transformer,
)
from tests.storage.salsa import hsalsa20, salsa20_stream

KEY = "/registry/secrets/default/a"
SECRET = bytes(range(32))

CIPHERS: dict[str, Transformer] = {
    "aesgcm": AESGCM(SECRET),
    "aescbc": AESCBC(SECRET),
    "secretbox": Secretbox(SECRET),
    "identity": IDENTITY,
}


def open_gcm(stored: bytes) -> bytes:
    """Decrypt a 12-byte nonce, the ciphertext and the tag; the store's key is authenticated
    data."""
    return aead.AESGCM(SECRET).decrypt(stored[:12], stored[12:], KEY.encode())


def open_cbc(stored: bytes) -> bytes:
    """Decrypt a 16-byte initialization vector and blocks with PKCS #7 padding."""
    decryptor = Cipher(algorithms.AES(SECRET), modes.CBC(stored[:16])).decryptor()
    unpadder = padding.PKCS7(128).unpadder()
    return unpadder.update(decryptor.update(stored[16:])) + unpadder.finalize()


def open_secretbox(stored: bytes) -> bytes:
    """Decrypt a 24-byte nonce and a NaCl secretbox (Poly1305 tag, XSalsa20)."""
    nonce, tag, content = stored[:24], stored[24:40], stored[40:]
    stream = salsa20_stream(hsalsa20(SECRET, nonce[:16]), nonce[16:], 32 + len(content))
    Poly1305.verify_tag(stream[:32], content, tag)
    return bytes(a ^ b for a, b in zip(content, stream[32:], strict=True))


DECRYPT: dict[str, Callable[[bytes], bytes]] = {
    "aesgcm": open_gcm,
    "aescbc": open_cbc,
    "secretbox": open_secretbox,
}


@pytest.mark.parametrize("name", DECRYPT)
@settings(max_examples=25)
@given(value=st.binary(max_size=100))
def test_round_trip(name: str, value: bytes) -> None:
    """A sealed value opens again, and decrypts by the published format without our code."""
    stored = CIPHERS[name].encrypt(value, KEY)
    assert CIPHERS[name].decrypt(stored, KEY) == DecryptResult(value, stale=False)
    assert DECRYPT[name](stored) == value


@pytest.mark.parametrize("size", [16, 24, 32])
def test_lengths_of_aes_keys(size: int) -> None:
    """AES takes keys of 16, 24 and 32 bytes."""
    for cipher in (AESGCM(bytes(size)), AESCBC(bytes(size))):
        assert cipher.decrypt(cipher.encrypt(b"x", KEY), KEY).value == b"x"


@pytest.mark.parametrize("name", ["aesgcm", "aescbc", "secretbox"])
def test_sealed_twice_is_different(name: str) -> None:
    """Sealing the same value twice gives different bytes."""
    assert CIPHERS[name].encrypt(b"value", KEY) != CIPHERS[name].encrypt(b"value", KEY)


@pytest.mark.parametrize("name", ["aesgcm", "secretbox"])
def test_an_altered_value_does_not_open(name: str) -> None:
    """A value with any changed byte does not open."""
    stored = CIPHERS[name].encrypt(b"value", KEY)
    for at in range(len(stored)):
        altered = stored[:at] + bytes((stored[at] ^ 1,)) + stored[at + 1 :]
        with pytest.raises(DecryptionError):
            CIPHERS[name].decrypt(altered, KEY)


def test_gcm_is_bound_to_the_key() -> None:
    """A value that is moved to another key of the store does not open."""
    with pytest.raises(DecryptionError, match="cipher: message authentication failed"):
        CIPHERS["aesgcm"].decrypt(CIPHERS["aesgcm"].encrypt(b"x", KEY), KEY + "b")


REFUSED = [
    ("aesgcm", b"", "the stored data was shorter than the required size"),
    ("aesgcm", b"x" * 11, "the stored data was shorter than the required size"),
    ("aesgcm", b"x" * 12, "cipher: message authentication failed"),
    ("aesgcm", b"x" * 99, "cipher: message authentication failed"),
    ("aescbc", b"x" * 15, "the stored data was shorter than the required size"),
    ("aescbc", b"x" * 17, "the stored data is not a multiple of the block size"),
    ("aescbc", b"x" * 16, "invalid PKCS7 data (empty or not padded)"),
    ("secretbox", b"x" * 39, "the stored data was shorter than the required size"),
    ("secretbox", b"x" * 40, "output array was not large enough for encryption"),
    ("identity", b"k8s:enc:x", "identity transformer tried to read encrypted data"),
]


@pytest.mark.parametrize(("name", "stored", "message"), REFUSED)
def test_errors(name: str, stored: bytes, message: str) -> None:
    """The error of a value that does not open is kube-apiserver's message."""
    with pytest.raises(DecryptionError) as caught:
        CIPHERS[name].decrypt(stored, KEY)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("padding", "message"),
    [
        (b"\x00", "invalid PKCS7 data (empty or not padded)"),
        (b"\x11", "invalid PKCS7 data (empty or not padded)"),
        (b"\x01\x02", "invalid padding on input"),
    ],
)
def test_padding_is_checked(padding: bytes, message: str) -> None:
    """A value with wrong PKCS #7 padding is refused."""
    vector = os.urandom(16)
    encryptor = Cipher(algorithms.AES(SECRET), modes.CBC(vector)).encryptor()
    stored = vector + encryptor.update(padding.rjust(16, b"x"))
    with pytest.raises(DecryptionError) as caught:
        CIPHERS["aescbc"].decrypt(stored, KEY)
    assert str(caught.value) == message


def choices(*named: tuple[bytes, Transformer]) -> PrefixTransformers:
    return PrefixTransformers(
        [PrefixTransformer(prefix, provider) for prefix, provider in named], unknown_prefix="nobody"
    )


def test_several_keys() -> None:
    """The first key seals, every key opens, and a value of another key is stale."""
    old, new = (b"old:", AESGCM(b"o" * 32)), (b"new:", AESCBC(b"n" * 32))
    old_only, after = choices(old), choices(new, old)
    stored = after.encrypt(b"v", KEY)
    assert stored.startswith(b"new:")
    assert after.decrypt(stored, KEY) == DecryptResult(b"v", stale=False)
    assert after.decrypt(old_only.encrypt(b"v", KEY), KEY) == DecryptResult(b"v", stale=True)
    with pytest.raises(DecryptionError, match=r"^nobody$"):
        old_only.decrypt(stored, KEY)


def test_identity() -> None:
    """Identity opens plain values at any position and no sealed ones; if it is first, sealed values
    are stale."""
    gcm = (b"k8s:enc:aesgcm:v1:", AESGCM(SECRET))
    last, first = choices(gcm, (b"", IDENTITY)), choices((b"", IDENTITY), gcm)
    sealed = last.encrypt(b"v", KEY)
    assert last.decrypt(b"k8s\0v", KEY) == DecryptResult(b"k8s\0v", stale=True)
    assert first.decrypt(sealed, KEY) == DecryptResult(b"v", stale=True)
    assert first.decrypt(b"k8s\0v", KEY) == DecryptResult(b"k8s\0v", stale=False)
    assert first.encrypt(b"v", KEY) == b"v"
    with pytest.raises(DecryptionError, match=r"^nobody$"):
        first.decrypt(b"k8s:enc:kms:v2:x", KEY)


def test_same_prefix_twice() -> None:
    """Of two providers with one prefix, the second is tried if the first fails; if both fail, the
    error contains both messages."""
    transformer = choices((b"p:", AESGCM(b"1" * 32)), (b"p:", Secretbox(b"2" * 32)))
    encrypted = b"p:" + Secretbox(b"2" * 32).encrypt(b"v", KEY)
    assert transformer.decrypt(encrypted, KEY) == DecryptResult(b"v", stale=True)
    with pytest.raises(DecryptionError) as caught:
        transformer.decrypt(b"p:" + b"x" * 80, KEY)
    assert str(caught.value) == (
        "[cipher: message authentication failed, output array was not large enough for encryption]"
    )
    providers = choices((b"p:", AESGCM(b"1" * 32)), (b"p:", AESGCM(b"2" * 32)))
    with pytest.raises(DecryptionError, match=r"^cipher: message authentication failed$"):
        providers.decrypt(b"p:" + b"x" * 80, KEY)
