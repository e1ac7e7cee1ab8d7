"""HPACK: the compressed header blocks of HTTP/2. Pure. Mirrors RFC 7541.

A decoder has the state of its connection: a table to which the peer adds fields, so that later
blocks name them by a number. An encoder needs no state: ours adds no fields to the peer's table,
and equal fields are equal bytes. The package hpack does the same in ten times the time (decision
144); tests compare the two.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import TypeAlias

from kapiserver.codecs.http2 import huffman
from kapiserver.codecs.http2.huffman import InvalidHuffman

Field: TypeAlias = tuple[bytes, bytes]

TABLE_BYTES = 4096
"""The initial maximum size of a table."""
FIELD_OVERHEAD = 32
"""What a field counts besides the bytes of its name and value."""
NO_TABLE = b"\x20"
"""Begins a block: the encoder uses no table from now on."""
MAX_FIELDS = 1000
"""Fields of a block. They may be very small, and decoding each takes time."""
MAX_CACHED_BLOCKS, MAX_CACHED_BLOCK_BYTES = 32, 128
MAX_CACHED_STRING_BYTES, MAX_CACHED_STRINGS_BYTES = 2048, 8192
"""What a decoder remembers: blocks that did not change its table, and long Huffman codes."""
MAX_SHARED_BYTES = 64
"""Shorter Huffman codes are remembered for all connections: paths, and names of programs."""

_MAX_INTEGER_BYTES = 5
_INDEXED = re.compile(rb"[\x81-\xfe]{1,%d}" % MAX_FIELDS)
_NUMBERS = bytes(byte & 0x7F for byte in range(256))
"""The number of the field that a byte names."""
_NAMES_AND_VALUES = """\
:authority|;:method|GET;:method|POST;:path|/;:path|/index.html;:scheme|http;:scheme|https;\
:status|200;:status|204;:status|206;:status|304;:status|400;:status|404;:status|500;\
accept-charset|;accept-encoding|gzip, deflate;accept-language|;accept-ranges|;accept|;\
access-control-allow-origin|;age|;allow|;authorization|;cache-control|;content-disposition|;\
content-encoding|;content-language|;content-length|;content-location|;content-range|;\
content-type|;cookie|;date|;etag|;expect|;expires|;from|;host|;if-match|;if-modified-since|;\
if-none-match|;if-range|;if-unmodified-since|;last-modified|;link|;location|;max-forwards|;\
proxy-authenticate|;proxy-authorization|;range|;referer|;refresh|;retry-after|;server|;\
set-cookie|;strict-transport-security|;transfer-encoding|;user-agent|;vary|;via|;\
www-authenticate|"""
STATIC_TABLE: tuple[Field, ...] = tuple(
    (name, value)
    for name, _, value in (row.encode().partition(b"|") for row in _NAMES_AND_VALUES.split(";"))
)
"""The fields of appendix A; the first one has the number 1."""
_FIRST_ADDED = 1 + len(STATIC_TABLE)
"""The number of the newest field of a table."""
_FIELD_NUMBERS = {field: number for number, field in enumerate(STATIC_TABLE, 1) if field[1]}
_NAME_NUMBERS = {
    name: number for number, (name, _) in reversed(tuple(enumerate(STATIC_TABLE, 1)))
}  # fmt: skip


class HpackError(Exception):
    """A block that cannot be decoded. The state of its connection is lost."""


class HeaderListTooLarge(HpackError):
    """The fields of a block are larger than the decoder's limit."""


class Decoder:
    """Decodes the header blocks of one connection, in the order of their arrival."""

    __slots__ = (
        "_blocks",
        "_list_bytes",
        "_max_table_bytes",
        "_numbered",
        "_strings",
        "_strings_bytes",
        "_table_bytes",
        "_table_limit",
    )

    def __init__(self, *, list_bytes: int) -> None:
        """`list_bytes` limits the fields of a block, each counted with FIELD_OVERHEAD."""
        self._list_bytes = list_bytes
        self._numbered: list[Field] = [(b"", b""), *STATIC_TABLE]
        """The fields by their numbers. Those that the peer has added follow STATIC_TABLE, the
        newest first."""
        self._table_bytes = 0
        self._max_table_bytes = TABLE_BYTES
        """The limit of the table that the peer has chosen."""
        self._table_limit = TABLE_BYTES
        """The largest limit that the peer may choose."""
        self._blocks: dict[bytes, list[Field]] = {}
        self._strings: dict[bytes, bytes] = {}
        self._strings_bytes = 0

    def forbid_table(self) -> None:
        """Refuse blocks that use a table: the peer has acknowledged that it must use none."""
        self._table_limit = 0
        self._blocks.clear()

    def decode(self, block: bytes) -> list[Field]:
        """Return the fields of a block, which the caller does not change. Raises HpackError."""
        cached = self._blocks.get(block)
        if cached is not None:
            return cached
        try:
            fields, is_pure = self._decode(block)
        except IndexError:
            raise HpackError("a header block is truncated") from None
        except InvalidHuffman as error:
            raise HpackError(str(error)) from None
        if is_pure and len(block) <= MAX_CACHED_BLOCK_BYTES:
            if len(self._blocks) >= MAX_CACHED_BLOCKS:
                self._blocks.clear()
            self._blocks[block] = fields
        return fields

    def _decode(self, block: bytes) -> tuple[list[Field], bool]:
        """Return the fields, and whether the table was not changed. Raises IndexError for a
        truncated block."""
        fields: list[Field] = []
        start, size, end, is_pure = 0, 0, len(block), True
        while start < end and block[start] & 0xE0 == 0x20:
            start = self._resize(block, start)
        if self._max_table_bytes > self._table_limit:
            raise HpackError("the table of headers is larger than allowed")
        numbered, limit = self._numbered, self._list_bytes
        # A byte names one field at most, and no field of a table is larger.
        may_be_large = end * TABLE_BYTES > limit
        while start < end:
            first = block[start]
            if first & 0x80:
                numbers, start = _indexed(block, start)
                try:
                    added = [numbered[number] for number in numbers]
                except IndexError:
                    raise HpackError("a header block names an unknown field") from None
            elif first & 0xE0 == 0x20:
                raise HpackError("the size of the table changes within a header block")
            else:
                field, start = self._literal(block, start)
                if first & 0x40:
                    self._add(field)
                    is_pure = False
                added = [field]
            fields += added
            if may_be_large:
                size += sum(len(name) + len(value) + FIELD_OVERHEAD for name, value in added)
                if size > limit or len(fields) > MAX_FIELDS:
                    raise HeaderListTooLarge("the headers are too large, or too many")
        return fields, is_pure

    def _literal(self, block: bytes, start: int) -> tuple[Field, int]:
        """Return a literal field, whose name may be in a table, and the offset after it."""
        number, start = _integer(block, start, 0x3F if block[start] & 0x40 else 0x0F)
        if not number:
            name, start = self._string(block, start)
        elif number < len(self._numbered):
            name = self._numbered[number][0]
        else:
            raise HpackError("a header block names an unknown field")
        value, start = self._string(block, start)
        return (name, value), start

    def _string(self, block: bytes, start: int) -> tuple[bytes, int]:
        first = block[start]
        is_huffman, size = first & 0x80, first & 0x7F
        if size == 0x7F:
            size, start = _integer(block, start, 0x7F)
        else:
            start += 1
        end = start + size
        if end > len(block):
            raise HpackError("a header block is truncated")
        text = block[start:end]
        if not is_huffman:
            return text, end
        if size <= MAX_SHARED_BYTES:
            return huffman.decode_short(text), end
        decoded = self._strings.get(text)
        if decoded is None:
            decoded = huffman.decode(text)
            if len(text) <= MAX_CACHED_STRING_BYTES:
                self._strings_bytes += len(text)
                if self._strings_bytes > MAX_CACHED_STRINGS_BYTES:
                    self._strings.clear()
                    self._strings_bytes = len(text)
                self._strings[text] = decoded
        return decoded, end

    def _resize(self, block: bytes, start: int) -> int:
        """Set the limit of the table; return the offset after the instruction."""
        size, start = _integer(block, start, 0x1F)
        if size > self._table_limit:
            raise HpackError("the table of headers is larger than allowed")
        self._max_table_bytes = size
        self._evict()
        return start

    def _add(self, field: Field) -> None:
        self._numbered.insert(_FIRST_ADDED, field)
        self._table_bytes += len(field[0]) + len(field[1]) + FIELD_OVERHEAD
        if self._table_bytes > self._max_table_bytes:
            self._evict()
        self._blocks.clear()

    def _evict(self) -> None:
        while self._table_bytes > self._max_table_bytes:
            name, value = self._numbered.pop()
            self._table_bytes -= len(name) + len(value) + FIELD_OVERHEAD
        self._blocks.clear()


def _indexed(block: bytes, start: int) -> tuple[Iterable[int], int]:
    """Return the numbers of fields that follow each other in a block, and the offset after them.
    Most numbers have one byte."""
    run = _INDEXED.match(block, start)
    if run is not None:
        return run[0].translate(_NUMBERS), run.end()
    number, start = _integer(block, start, 0x7F)
    if not number:
        raise HpackError("a header block names field 0")
    return (number,), start


def _integer(block: bytes, start: int, prefix: int) -> tuple[int, int]:
    """Return an integer whose first byte has the bits of `prefix`, and the offset after it."""
    number = block[start] & prefix
    start += 1
    if number < prefix:
        return number, start
    for shift in range(0, 7 * _MAX_INTEGER_BYTES, 7):
        byte = block[start]
        start += 1
        number += (byte & 0x7F) << shift
        if byte < 0x80:
            return number, start
    raise HpackError("an integer in a header block is too long")


def encode_integer(number: int, prefix: int, flags: int) -> bytes:
    """Encode an integer; its first byte has `flags` and the bits of `prefix`."""
    if number < prefix:
        return bytes((flags | number,))
    number -= prefix
    encoded = bytearray((flags | prefix,))
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


@functools.lru_cache(maxsize=256)
def encode_name(name: bytes) -> bytes:
    """Encode the name of a field; its value follows by `encode_string`. Nobody adds the field to a
    table."""
    number = _NAME_NUMBERS.get(name)
    if number is not None:
        return encode_integer(number, 0x0F, 0x10)
    return b"\x10" + encode_string(name)


def encode_string(text: bytes) -> bytes:
    """Encode a value."""
    size = len(text)
    return (bytes((size,)) if size < 0x7F else encode_integer(size, 0x7F, 0)) + text


def encode_field(name: bytes, value: bytes) -> bytes:
    """Encode one field. A field of the static table is its number, another one is in full."""
    number = _FIELD_NUMBERS.get((name, value))
    if number is not None:
        return bytes((0x80 | number,))
    return encode_name(name) + encode_string(value)


def encode(fields: Iterable[Field]) -> bytes:
    """Encode a header block that changes no table."""
    return b"".join([encode_field(name, value) for name, value in fields])
