"""HPACK and its Huffman code, compared with the package hpack."""

from __future__ import annotations

import hpack as reference
import pytest
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hypothesis import given
from hypothesis import strategies as st

from kapiserver.codecs.http2 import hpack, huffman
from kapiserver.codecs.http2.hpack import Decoder, HeaderListTooLarge, HpackError

LIMIT = 64 << 10
NAMES = st.one_of(
    st.sampled_from([name for name, _ in hpack.STATIC_TABLE]), st.binary(min_size=1, max_size=40)
)
FIELDS = st.lists(st.tuples(NAMES, st.binary(max_size=300)), max_size=12)


def test_tables() -> None:
    """The static table and the Huffman code are those of the package."""
    assert reference.hpack.HeaderTable.STATIC_TABLE == hpack.STATIC_TABLE
    codes = {symbol: (code, bits) for symbol, code, bits in huffman.codes()}
    expected = zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True)
    assert [codes[symbol] for symbol in range(257)] == list(expected)


@given(lists=st.lists(FIELDS, max_size=5), huffman=st.booleans())
def test_decoding(lists: list[list[tuple[bytes, bytes]]], huffman: bool) -> None:
    """Blocks that the package has encoded have the fields that it has encoded, with its use of a
    table and of the Huffman code."""
    encoder, decoder = reference.Encoder(), Decoder(list_bytes=LIMIT)
    for fields in lists:
        assert decoder.decode(encoder.encode(fields, huffman=huffman)) == fields


@given(fields=FIELDS)
def test_encoding(fields: list[tuple[bytes, bytes]]) -> None:
    """The package and our decoder decode what we encode, whatever their tables hold."""
    block = hpack.encode(fields)
    for decoder in (reference.Decoder(), Decoder(list_bytes=LIMIT)):
        decoder.decode(reference.Encoder().encode([(b"x", b"y")]))
        decode = {"raw": True} if isinstance(decoder, reference.Decoder) else {}
        assert [tuple(field) for field in decoder.decode(block, **decode)] == fields


@given(blocks=st.lists(st.binary(max_size=60), max_size=5), is_forbidden=st.booleans())
def test_any_block(blocks: list[bytes], is_forbidden: bool) -> None:
    """A block is decoded as by the package, or refused if the package refuses it."""
    decoder, reference_decoder = (
        Decoder(list_bytes=LIMIT),
        reference.Decoder(max_header_list_size=LIMIT),
    )
    if is_forbidden:
        decoder.forbid_table()
        reference_decoder.max_allowed_table_size = 0
    for block in blocks:
        try:
            expected = [tuple(field) for field in reference_decoder.decode(block, raw=True)]
        except reference.HPACKError:
            with pytest.raises(HpackError):
                decoder.decode(block)
            return
        assert decoder.decode(block) == expected


@given(text=st.binary(max_size=60))
def test_any_huffman_code(text: bytes) -> None:
    """A Huffman code is decoded as by the package, or refused."""
    try:
        expected = reference.huffman_table.decode_huffman(text)
    except reference.HPACKError:
        with pytest.raises(huffman.InvalidHuffman):
            huffman.decode(text)
    else:
        assert huffman.decode(text) == expected


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",
        b"\xff\x01",
        b"\xff\xff\xff\xff\xff\xff\xff\xff",
        b"\x7f\x80\x01\x01x",
        b"\x40\x01x",
        b"\x40\x05x",
        b"\x00\x81\x00\x01x",
        b"\x00\x82\x1f\xff\x01x",
        b"\x00\x84\xff\xff\xff\xff\x01x",
        b"\x3f\xe2\x1f",
        b"\x82\x20",
    ],
)
def test_invalid(block: bytes) -> None:
    """Unknown numbers, truncated blocks, invalid padding, EOS, and sizes out of place are
    refused."""
    with pytest.raises(HpackError):
        Decoder(list_bytes=LIMIT).decode(block)


def test_bomb() -> None:
    """A field that a block names again and again counts each time."""
    decoder = Decoder(list_bytes=LIMIT)
    value = b"v" * 4000
    decoder.decode(b"\x40\x01n" + hpack.encode_integer(len(value), 0x7F, 0) + value)
    with pytest.raises(HeaderListTooLarge):
        decoder.decode(b"\xbe" * 100)


def test_remembered_blocks() -> None:
    """A decoder remembers some blocks that leave its table as it is, until the table changes, and
    some Huffman codes."""
    decoder = Decoder(list_bytes=LIMIT)
    assert decoder.decode(b"\x40\x01x\x01y") == [(b"x", b"y")]
    assert decoder.decode(b"\xbe") is decoder.decode(b"\xbe")
    decoder.decode(b"\x40\x01x\x01z")
    assert decoder.decode(b"\xbe") == [(b"x", b"z")]
    for number in range(hpack.MAX_CACHED_BLOCKS + 5):
        block = hpack.encode([(b"n", b"%d" % number)])
        assert decoder.decode(block) is decoder.decode(block)
    assert len(decoder._blocks) <= hpack.MAX_CACHED_BLOCKS
    long_block = hpack.encode([(b"x", b"y" * hpack.MAX_CACHED_BLOCK_BYTES)])
    assert decoder.decode(long_block) is not decoder.decode(long_block)
    encoder = reference.Encoder()
    for number in range(100):
        decoder.decode(encoder.encode([(b"x", b"%d" % number * 400)]))
        assert sum(map(len, decoder._strings)) <= hpack.MAX_CACHED_STRINGS_BYTES
