"""The fuzz target over a small corpus, without atheris."""

from __future__ import annotations

import random

import pytest

from tests.fuzz.fuzz_decoders import MEDIA, corpus, decode_any

HOSTILE = [
    b"", b"{", b"[" * 1000, b"\xff\xfe", b"null", b"k8s\0", b"k8s\0\x0a\x7f", b"\xd9\xd9\xf7\x9f",
    b"\xa1\x44data\xa1\x41k\x41\xff", b'{"data":{"k":"\\ud800"}}', b"data: {k: \"\\ud800\"}",
    b"&a [*a]",
]  # fmt: skip


@pytest.mark.parametrize("data", corpus())
def test_corpus(data: bytes) -> None:
    """Truncated and changed objects are decoded or raise CodecError."""
    rng = random.Random(1)
    decode_any(data)
    for _ in range(40):
        changed = bytearray(data)
        for _ in range(rng.randint(1, 4)):
            changed[rng.randrange(2, len(data))] = rng.randrange(256)
        decode_any(bytes(changed))
        decode_any(data[: rng.randrange(len(data))])


@pytest.mark.parametrize("data", HOSTILE)
def test_hostile(data: bytes) -> None:
    """Input that is not an object in any form is decoded or raises CodecError."""
    for choice in range(len(MEDIA)):
        decode_any(bytes((choice, 1)) + data)
