"""Segments: memory that several processes share, with bytes of many entries.

A segment is a sealed file in memory (memfd_create): nobody can change it. A process that has its
descriptor maps it, and the bytes of its entries are slices of the mapping. A slice keeps the
mapping, and the kernel frees the segment with the last mapping of any process and the last
descriptor. So no process counts references, and one that dies leaves nothing behind.

    8 bytes     length of the index, little-endian
    index       msgpack of `_Index`
    data        the bytes of all items, one after the other

Knows no worker and no cache; `storage/cache/sharing.py` decides what is shared.
"""

from __future__ import annotations

import fcntl
import mmap
import os
from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from typing import NamedTuple

import msgspec
from msgspec import Struct

from kapiserver.api.group import GroupVersion
from kapiserver.storage.cache.entry import Data, Encoding, Part, encoding_of
from kapiserver.storage.cache.shared_bytes import SharedBytes

SEGMENT_BYTES = 8 << 20
"""Approximate size of one segment. A larger one would block the event loop while it is written."""
SEGMENT_ITEMS = 4096
"""The maximum number of items in a segment, whose index is decoded at once."""
_BUFFERS = 512
"""Buffers of one system call that writes; Linux takes 1,024."""
_LENGTH = Layout("<Q")
_STORED_VALUE = -1


class Item(NamedTuple):
    """Bytes of one part of the entry of a key."""

    path: str
    part: Part
    data: Data


class _Index(Struct, frozen=True, array_like=True):
    """What a segment holds.

    encodings   (group, version, media type) of the encodings of its items
    items       key, position in `encodings` or _STORED_VALUE, and size of the data
    """

    encodings: list[tuple[str, str, str]]
    items: list[tuple[str, int, int]]


class Segment:
    """A segment that this process has mapped."""

    __slots__ = ("_index", "_start", "mapping")

    def __init__(self, mapping: mmap.mmap) -> None:
        self.mapping = mapping
        (length,) = _LENGTH.unpack_from(mapping)
        self._start = _LENGTH.size + length
        self._index = msgspec.msgpack.decode(mapping[_LENGTH.size : self._start], type=_Index)

    def items(self) -> Iterator[tuple[str, Part, SharedBytes]]:
        """Yield the key, the part and the bytes of each item."""
        encodings = [
            encoding_of(GroupVersion(group, version), media)
            for group, version, media in self._index.encodings
        ]
        start = self._start
        for path, number, size in self._index.items:
            part = None if number == _STORED_VALUE else encodings[number]
            yield path, part, SharedBytes.of(self.mapping, start, size)
            start += size


def can_share() -> bool:
    """Return whether this system has files in memory."""
    return hasattr(os, "memfd_create")


def write_segment(items: Sequence[Item]) -> int:
    """Write a segment and return its descriptor. Raises OSError."""
    encodings: dict[Encoding, int] = {}
    rows = [
        (
            item.path,
            _STORED_VALUE if item.part is None else encodings.setdefault(item.part, len(encodings)),
            len(item.data),
        )
        for item in items
    ]
    names = [(*encoding.version, encoding.media) for encoding in encodings]
    index = msgspec.msgpack.encode(_Index(names, rows))
    descriptor = os.memfd_create("kapiserver", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        _write(descriptor, [_LENGTH.pack(len(index)), index])
        for at in range(0, len(items), _BUFFERS):
            _write(descriptor, [bytes(item.data) for item in items[at : at + _BUFFERS]])
        seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _write(descriptor: int, buffers: Sequence[bytes]) -> None:
    """Write all buffers. Raises OSError if there is no memory for them."""
    if os.writev(descriptor, buffers) != sum(map(len, buffers)):
        raise OSError("no memory for a segment")


def map_segment(descriptor: int) -> mmap.mmap:
    """Map a segment; the descriptor may be closed afterwards. Raises OSError."""
    # Private: before Linux 6.7 a sealed file cannot be mapped as shared. Equal for who only reads.
    return mmap.mmap(descriptor, 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
