"""Salsa20 and HSalsa20 by their specification, to decrypt NaCl boxes without a library."""

from __future__ import annotations

import struct

_WORDS = struct.Struct("<16I")
_SIGMA = struct.unpack("<4I", b"expand 32-byte k")
_ROUNDS = [
    # columns, then rows: the four words of each quarter round
    (0, 4, 8, 12), (5, 9, 13, 1), (10, 14, 2, 6), (15, 3, 7, 11),
    (0, 1, 2, 3), (5, 6, 7, 4), (10, 11, 8, 9), (15, 12, 13, 14),
]  # fmt: skip


def _rotated(value: int, bits: int) -> int:
    value &= 0xFFFFFFFF
    return (value << bits | value >> (32 - bits)) & 0xFFFFFFFF


def _mixed(block: tuple[int, ...]) -> list[int]:
    state = list(block)
    for _ in range(10):
        for a, b, c, d in _ROUNDS:
            state[b] ^= _rotated(state[a] + state[d], 7)
            state[c] ^= _rotated(state[b] + state[a], 9)
            state[d] ^= _rotated(state[c] + state[b], 13)
            state[a] ^= _rotated(state[d] + state[c], 18)
    return state


def _block(key: bytes, middle: bytes) -> tuple[int, ...]:
    k, m = struct.unpack("<8I", key), struct.unpack("<4I", middle)
    s = _SIGMA
    return (s[0], *k[:4], s[1], *m, s[2], *k[4:], s[3])


def hsalsa20(key: bytes, nonce: bytes) -> bytes:
    """The key of XSalsa20's inner stream, from 32 bytes of key and 16 of nonce."""
    state = _mixed(_block(key, nonce))
    return struct.pack("<8I", *(state[at] for at in (0, 5, 10, 15, 6, 7, 8, 9)))


def salsa20_stream(key: bytes, nonce: bytes, length: int) -> bytes:
    """The first bytes of the key stream of a 32-byte key and an 8-byte nonce."""
    stream = b""
    for number in range(-(-length // 64)):
        block = _block(key, nonce + struct.pack("<Q", number))
        sums = ((a + b) & 0xFFFFFFFF for a, b in zip(block, _mixed(block), strict=True))
        stream += _WORDS.pack(*sums)
    return stream[:length]
