"""Bytes of an entry in memory that several processes share (`storage/cache/segments.py`).

An entry has one or two of them, and a cache tens of thousands: a `memoryview` takes 208 bytes, this
64. Knows no entry.
"""

from __future__ import annotations

import mmap

from msgspec import Struct


class SharedBytes(Struct, frozen=True, gc=False):
    """A slice of a mapping, which it keeps mapped; `bytes` copies it.

    place   where it begins, and its size in the lower 32 bits: two numbers would take more
    """

    mapping: mmap.mmap
    place: int

    @classmethod
    def of(cls, mapping: mmap.mmap, start: int, size: int) -> SharedBytes:
        """Return this many bytes of a mapping, from a position on."""
        return cls(mapping, start << 32 | size)

    def __len__(self) -> int:
        return self.place & (1 << 32) - 1

    def __bytes__(self) -> bytes:
        place = self.place
        start = place >> 32
        return self.mapping[start : start + (place & (1 << 32) - 1)]
